"""zoo-plugins without a command: the list of methods that are installed."""

from __future__ import annotations

import argparse
import sys

from zoo.cli.printing import say, say_json, warn
from zoo.slots import SLOTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that filter the list."""
    parser.add_argument("--slot", metavar="SLOT", help=f"only those of a slot: {', '.join(SLOTS)}")
    parser.add_argument("--family", metavar="NAME", help="only those of a family, such as v1")
    parser.add_argument("--find", metavar="WORD", help="only those with this word in id, phrase, formula or family")
    parser.add_argument(
        "--json", action="store_true", help="print all that is known about them: paths, versions, settings"
    )
    parser.add_argument("--fresh", action="store_true", help="import every plugin again instead of reading the cache")


def run(arguments: argparse.Namespace) -> int:
    """List the methods that the flags ask for."""
    from zoo.catalogue import method_list
    from zoo.catalogue.status import plugin_statuses
    from zoo.plugins.registry import installed

    rows = method_list.rows(plugin_statuses(installed(), fresh=arguments.fresh))
    chosen = method_list.filtered(rows, arguments.slot, arguments.family, arguments.find)
    if arguments.json:
        say_json([method_list.as_dict(row) for row in chosen])
        return 0
    if not rows:
        say("No methods are installed: no distribution has entry points in zoo.residual and the like.")
        return 0
    if not chosen:
        warn("zoo-plugins", "no method is like that; zoo-plugins alone lists all")
        return 1
    if sys.stdout.isatty():
        method_list.draw(chosen)
    else:
        say("\n".join(method_list.lines(chosen)))
    if any(row.problem for row in chosen):
        sys.stdout.flush()
        print("`zoo-plugins show ID` tells more of a broken one.", file=sys.stderr)
    return 0
