"""zoo-data: corpora, before anything is trained on them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from zoo.cli.arguments import Parser, add_subcommands, run_subcommand
from zoo.cli.data_commands import get, prepare, show, verify

PROGRAM = "zoo-data"
COMMANDS = {"get": get, "prepare": prepare, "show": show, "verify": verify}


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    whole = Parser(PROGRAM, "Fetch corpora, prepare them for training, and look at what was prepared.")
    add_subcommands(whole, COMMANDS, required=True)
    return whole


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    return run_subcommand(PROGRAM, parser().parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
