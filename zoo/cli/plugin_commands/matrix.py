"""zoo-plugins matrix: which methods can be combined."""

from __future__ import annotations

import argparse
import contextlib
import sys

from zoo.cli.printing import say, say_json

HELP = "which methods can be combined, and why others cannot"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the form of the output."""
    parser.add_argument("--json", action="store_true", help="print every pair as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the matrix of all usable methods."""
    from zoo.catalogue.status import sound
    from zoo.plugins.registry import installed
    from zoo.testing.compatibility import cells, lines, methods

    registry, broken = sound(installed())
    with contextlib.redirect_stdout(sys.stderr):  # what a method prints is no part of the matrix
        usable, not_built = methods(registry)
    pairs = cells(usable)
    if arguments.json:
        say_json([{"row": c.row.name, "column": c.column.name, "refusal": c.refusal} for c in pairs])
        return 0
    say("\n".join(lines(pairs) if pairs else ["There are no methods of two slots to combine."]))
    for line in [*broken, *not_built]:
        say(f"\nleft out: {line}")
    return 0
