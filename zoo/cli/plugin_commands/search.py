"""zoo-plugins search: the methods whose id, phrase, formula, family or card mention some words."""

from __future__ import annotations

import argparse

from zoo.cli.printing import say, say_json, warn

HELP = "methods whose name, formula, family or card mention all of these words"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the words, and the form of the output."""
    parser.add_argument("words", metavar="WORD", nargs="+", help="a word, or a part of one")
    parser.add_argument("--json", action="store_true", help="print all that is known about them")


def run(arguments: argparse.Namespace) -> int:
    """List the methods that mention every word, those in whose id or phrase they are first."""
    from zoo.catalogue import method_list
    from zoo.catalogue.status import plugin_statuses
    from zoo.plugins.registry import installed

    hits = method_list.search(method_list.rows(plugin_statuses(installed())), arguments.words)
    if arguments.json:
        say_json([method_list.as_dict(row) for row in hits])
        return 0
    if not hits:
        warn("zoo-plugins", f"no method mentions {' and '.join(arguments.words)}; zoo-plugins alone lists all")
        return 1
    say("\n".join(f"{row.entry.name}  {row.phrase or row.state}" for row in hits))
    return 0
