"""zoo-plugins: the methods that are installed, and what each of them is."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

from zoo.cli.arguments import Parser, add_subcommands, run_subcommand
from zoo.cli.plugin_commands import check, list as list_command, matrix, new, search, show
from zoo.cli.printing import warn
from zoo.errors import nearest

PROGRAM = "zoo-plugins"
COMMANDS = {"show": show, "search": search, "check": check, "matrix": matrix, "new": new}


class PluginsParser(Parser):
    """The parser of zoo-plugins: a word that is no command may be meant as a search."""

    def error(self, message: str) -> NoReturn:
        if match := re.match(r"argument COMMAND: invalid choice: '(.*?)' ", message):
            near = nearest(match[1], COMMANDS)
            message = f"there is no command {match[1]}{near}; to search the list, write --find {shlex.quote(match[1])}"
        super().error(message)


def parser() -> argparse.ArgumentParser:
    """The parser of the list and of all commands."""
    whole = PluginsParser(PROGRAM, "List the methods that are installed, by slot and family.")
    list_command.add_arguments(whole)
    whole.set_defaults(run=list_command.run)
    add_subcommands(whole, COMMANDS)
    return whole


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    arguments = parser().parse_args(argv)
    from zoo.plugins.finder import shadowed

    for line in shadowed():
        warn(PROGRAM, line)
    return run_subcommand(PROGRAM, arguments)


if __name__ == "__main__":
    sys.exit(main())
