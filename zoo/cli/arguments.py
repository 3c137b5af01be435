"""What all commands share: a parser that names the nearest flag in place of printing the usage, and how commands end."""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from zoo.cli.printing import say

        say(versions(parser.prog))
        parser.exit()


def versions(program: str) -> str:
    """The core's version, and that of every distribution with methods."""
    import zoo
    from zoo.plugins.finder import find_methods

    methods: dict[str, list[str]] = {}
    for entry in find_methods():
        methods.setdefault(entry.source, []).append(entry.id)
    core = ".".join(map(str, zoo.API_VERSION))
    lines = [f"{program} {zoo.__version__}, plugin interface {core}"]
    for source, ids in sorted(methods.items()):
        lines.append(f"  {source}: {', '.join(ids) if len(ids) <= 5 else f'{len(ids)} methods'}")
    return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """The parser of a command: no abbreviations, --version, and errors of one sentence."""

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

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed = super().parse_known_args(args, namespace)
        try:
            os.getcwd()
        except FileNotFoundError:
            self.exit(2, f"{self.prog}: the working directory was deleted: change to another one\n")
        return parsed

    def stray(self, word: str) -> str:
        """The error for a word that follows no flag."""
        return f"{word!r} belongs behind a flag"

    def unknown(self, flag: str, value: str) -> str:
        """The error for a flag that does not exist."""
        from zoo.errors import nearest

        flags = [known for action in self._actions for known in action.option_strings if known.startswith("--")]
        return f"there is no {flag}{nearest(flag.partition('=')[0], flags)}"

    def error(self, message: str) -> NoReturn:
        _, unknown, arguments = message.partition("unrecognized arguments: ")
        if unknown:
            first, *others = arguments.split() or [""]
            if first.startswith("-"):
                message = self.unknown(first, others[0] if others else "")
            elif first:
                message = self.stray(arguments.strip() if "=" in arguments else first)
            else:
                message = "one of the words is empty: is a variable not set?"
        from zoo.system.foreign_text import printable

        self.exit(2, f"{self.prog}: {printable(message)}; see {self.prog} --help\n")


class GinParser(Parser):
    """The parser of a command that takes Gin files."""

    def stray(self, word: str) -> str:
        return f"{word} belongs behind a flag: --set {shlex.quote(word)}" if "=" in word else f"write --gin {word}"

    def unknown(self, flag: str, value: str) -> str:
        """The error for a flag that does not exist: one that is named like a setting is most likely meant as one."""
        from zoo.config.load import named

        name, given, attached = flag.lstrip("-").partition("=")
        value = attached if given else "VALUE" if value.startswith("--") else value or "VALUE"
        flags = [known for action in self._actions for known in action.option_strings]
        misspelt = difflib.get_close_matches(f"--{name}", flags, 1, 0.85)
        if not misspelt and (keys := named(name)):
            return f"there is no {flag}: write " + " or ".join(f"--set {shlex.quote(f'{key}={value}')}" for key in keys)
        return super().unknown(flag, value)


def folder(flag: str, path: Path) -> None:
    """Make the folder that a flag names; raise if it cannot be one."""
    from zoo.errors import ZooError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ZooError(f"{flag} {path} cannot be a folder: {error.strerror}; name another one") from error


def failed(program: str, error: Exception) -> int:
    """Print what went wrong, and return the exit code."""
    from zoo.cli.printing import warn

    warn(
        program, f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    )
    return 2


def add_subcommands(parser: argparse.ArgumentParser, commands: Mapping[str, Any], required: bool = False) -> None:
    """Add the commands of a program: modules with HELP, `add_arguments` and `run`."""
    group = parser.add_subparsers(title="commands", metavar="COMMAND", required=required)
    for name, command in commands.items():
        of_command = group.add_parser(name, help=command.HELP)
        command.add_arguments(of_command)
        of_command.set_defaults(run=command.run)


def run_subcommand(program: str, arguments: argparse.Namespace) -> int:
    """Run the command that was chosen among those of a program, and return the exit code."""
    from zoo.cli.printing import warn
    from zoo.errors import ZooError

    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except ZooError as error:
        return failed(program, error)
    except KeyboardInterrupt:
        warn(program, "interrupted")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return ended_by_reader()
    return code


def ended_by_reader() -> int:
    """End quietly when whoever read the output reads no more, as `head` does; return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
