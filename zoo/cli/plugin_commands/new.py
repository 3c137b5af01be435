"""zoo-plugins new: a project for a method of one's own."""

from __future__ import annotations

import argparse
from pathlib import Path

from zoo.cli.printing import say
from zoo.slots import SLOTS

HELP = "write a small project with a method of your own, tests included"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add name, slot and folder of the project."""
    parser.add_argument("name", metavar="NAME", help="of the project, such as my-method")
    parser.add_argument("--slot", required=True, help=f"what it changes: {', '.join(SLOTS[:-1])} or {SLOTS[-1]}")
    parser.add_argument(
        "--into", type=Path, default=Path("."), metavar="DIR", help="where its folder goes (default: here)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the project."""
    from zoo.catalogue.scaffold import new

    folder = new(arguments.name, arguments.slot, arguments.into)
    say(f"wrote {folder}; next:\n  pip install -e {folder}\n  pytest {folder}")
    return 0
