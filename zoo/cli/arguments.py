"""What all commands share. argparse: a sentence in place of the usage, and the nearest flag for one that does not exist."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import NoReturn


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(versions(parser.prog))
        parser.exit()


def versions(program: str) -> str:
    """The core's version, and that of every distribution with methods."""
    import zoo
    from zoo.plugins import find

    methods: dict[str, list[str]] = {}
    for found in find():
        methods.setdefault(found.source, []).append(found.id)
    core = ".".join(map(str, zoo.API_VERSION))
    lines = [f"{program} {zoo.__version__}, plugin interface {core}"]
    for source, ids in sorted(methods.items()):
        lines.append(f"  {source}: {', '.join(ids) if len(ids) <= 5 else f'{len(ids)} methods'}")
    return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, description: str | None = None, epilog: str | None = None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument(
            "--version", action=_Version, nargs=0, help="print the versions of core and plugins, and exit"
        )

    def stray(self, word: str) -> str:
        """What to say of a word that stands behind no flag."""
        return f"{word!r} belongs behind a flag"

    def error(self, message: str) -> NoReturn:
        _, unknown, arguments = message.partition("unrecognized arguments: ")
        if unknown:
            from zoo.errors import nearest

            flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
            first = " ".join(arguments.split()[:1])
            if first.startswith("-"):
                message = f"there is no {first}{nearest(first.partition('=')[0], flags)}"
            elif first:
                message = self.stray(arguments.strip() if "=" in arguments else first)
            else:
                message = "one of the words is empty: is a variable not set?"
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


class GinParser(Parser):
    """… of a command that takes Gin files."""

    def stray(self, word: str) -> str:
        return f"{word} belongs behind a flag: --set {shlex.quote(word)}" if "=" in word else f"write --gin {word}"


def folder(flag: str, path: Path) -> None:
    """Make a folder that was named, or say that it cannot be one."""
    from zoo.errors import ZooError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ZooError(f"{flag} {path} cannot be a folder: {error.strerror}; name another one") from error


def failed(program: str, error: Exception) -> int:
    """Tell what went wrong; the exit code."""
    told = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
    print(f"{program}: {told}", file=sys.stderr)
    return 2


def seen_enough() -> int:
    """End quietly when whoever read the output reads no more, as `head` does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
