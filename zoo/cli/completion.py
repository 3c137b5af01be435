"""`python -m zoo completion SHELL`: a script that completes the commands, their flags and the names of methods."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zoo.cli.arguments import Parser, ended_by_reader

PROGRAM = "python -m zoo completion"
EPILOG = """\
examples:
  eval "$(python -m zoo completion bash)"                                      this bash; in ~/.bashrc: every one
  eval "$(python -m zoo completion zsh)"                                       zsh, after compinit
  python -m zoo completion fish > ~/.config/fish/completions/zoo-train.fish    fish

The script is written from the commands as they are installed; write it again when they change.
"""
MODULES = ("train", "bench", "report", "plugins", "data", "generate", "export", "evaluate")
SHELLS = ("bash", "zsh", "fish")


class Flag(NamedTuple):
    """A flag, and what follows it."""

    names: tuple[str, ...]
    help: str
    values: str  # "": nothing, "files", "methods" (ids and Gin files), "words": anything else


class Command(NamedTuple):
    """A command or one of its commands, with its flags."""

    program: str
    word: str  # the command among those of a program; "": the program itself
    flags: tuple[Flag, ...]
    commands: tuple[str, ...] = ()


def parser() -> argparse.ArgumentParser:
    """What can be given."""
    of_command = Parser(PROGRAM, "Print a script that completes zoo's commands in a shell.", EPILOG)
    of_command.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    return of_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the answer is its exit code."""
    arguments = parser().parse_args(argv)
    try:
        print(script(arguments.shell, list(commands()), method_words()), flush=True)
    except BrokenPipeError:
        return ended_by_reader()
    return 0


def commands() -> Iterator[Command]:
    """Every command as its own parser describes it."""
    for name in MODULES:
        of_command: argparse.ArgumentParser = importlib.import_module(f"zoo.cli.{name}").parser()
        inner = [each for each in of_command._actions if isinstance(each, argparse._SubParsersAction)]
        inner_parsers = {word: each for action in inner for word, each in action.choices.items()}
        yield Command(of_command.prog, "", flags_of(of_command), tuple(inner_parsers))
        for word, each in inner_parsers.items():
            yield Command(of_command.prog, word, flags_of(each))


def flags_of(of_command: argparse.ArgumentParser) -> tuple[Flag, ...]:
    """The flags of a parser."""
    flags = []
    for action in of_command._actions:
        names = tuple(name for name in action.option_strings if name.startswith("--"))
        if names:
            takes = action.nargs != 0
            about = (action.help or "").replace("%%", "%")
            flags.append(Flag(names, about, _values(action.metavar, names) if takes else ""))
    return tuple(flags)


def _values(metavar: object, names: tuple[str, ...]) -> str:
    if "--gin" in names:
        return "methods"
    return "files" if metavar in ("DIR", "FILE", "FOLDER", "RUN", "PLACE") else "words"


def method_words() -> list[str]:
    """What --gin takes by bare name: methods and the other Gin files."""
    from zoo.config.gin_files import gin_folders

    return sorted({str(file.relative_to(top).with_suffix("")) for top in gin_folders() for file in top.rglob("*.gin")})


def script(shell: str, commands: Sequence[Command], methods: Sequence[str]) -> str:
    """The script for a shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands, methods)


def _bash(commands: Sequence[Command], methods: Sequence[str]) -> str:
    cases = []
    for each in commands:
        words = " ".join([*each.commands, *(name for flag in each.flags for name in flag.names)])
        cases.append(f'        "{each.program} {each.word}") words="{words}" ;;')
    files, gin = (_names(commands, values) for values in ("files", "methods"))
    inner = "|".join(sorted({each.word for each in commands if each.word}))
    programs = " ".join(sorted({each.program for each in commands}))
    return f"""\
_zoo() {{
    local program="${{COMP_WORDS[0]##*/}}" inner="" words=""
    local word="${{COMP_WORDS[COMP_CWORD]}}" last="${{COMP_WORDS[COMP_CWORD-1]}}"
    case "${{COMP_WORDS[1]}}" in {inner}) [ "$COMP_CWORD" -gt 1 ] && inner="${{COMP_WORDS[1]}}" ;; esac
    case "$last" in
        {gin}) COMPREPLY=($(compgen -W "{" ".join(methods)}" -- "$word") $(compgen -f -- "$word")); return ;;
        {files}) COMPREPLY=($(compgen -f -- "$word")); return ;;
    esac
    case "$program $inner" in
{chr(10).join(cases)}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ ${{#COMPREPLY[@]}} -eq 0 ] && COMPREPLY=($(compgen -f -- "$word"))
}}
complete -F _zoo {programs}"""


def _zsh(commands: Sequence[Command], methods: Sequence[str]) -> str:
    # zsh runs bash's own script through its compatibility layer.
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash(commands, methods)}"


def _fish(commands: Sequence[Command], methods: Sequence[str]) -> str:
    lines = []
    for each in commands:
        others = " ".join(next(c.commands for c in commands if c.program == each.program))
        before = (
            f"__fish_seen_subcommand_from {each.word}" if each.word else f"not __fish_seen_subcommand_from {others}"
        )
        condition = f' -n "{before}"' if others else ""
        lines += [f"complete -c {each.program}{condition} -a {word}" for word in each.commands]
        for flag in each.flags:
            names = " ".join(f"-l {name.removeprefix('--')}" for name in flag.names)
            about = flag.help.replace("\\", "\\\\").replace("'", "\\'")
            takes = {"": "", "files": " -r", "words": " -x", "methods": f" -r -a '{' '.join(methods)}'"}[flag.values]
            lines.append(f"complete -c {each.program}{condition} {names}{takes} -d '{about}'")
    return "\n".join(lines)


def _names(commands: Sequence[Command], values: str) -> str:
    """The flags that such values follow, as a pattern of the shell."""
    return "|".join(
        sorted({name for each in commands for flag in each.flags if flag.values == values for name in flag.names})
    )


if __name__ == "__main__":
    sys.exit(main())
