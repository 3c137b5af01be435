"""zoo-data get: a corpus with a name, fetched to this computer."""

from __future__ import annotations

import argparse
from pathlib import Path

from zoo.cli.printing import say, say_json

HELP = "fetch a corpus that has a name, or list those that have one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the name, and where it comes from and goes to."""
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="such as classic-books, or hf:owner/name; without it: list them"
    )
    parser.add_argument("--from", dest="source", metavar="PLACE", help="a local clone, or a local folder of its files")
    parser.add_argument("--into", type=Path, metavar="DIR", help="where its folder goes (default: $ZOO_DATA)")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Fetch it, or list what there is."""
    from zoo.data.fetch import fetch

    if arguments.name is None:
        _list(arguments.json)
        return 0
    folder, notes = fetch(arguments.name, arguments.source, arguments.into)
    say("\n".join([*notes, f"{arguments.name} is in {folder}", f"  zoo-train --set 'data.corpus = \"{folder}\"'"]))
    return 0


def _list(as_json: bool) -> None:
    from zoo.data.known_corpora import INSTALLED, KNOWN, corpora_folder, located

    if as_json:
        places = {name: "installed" if name == INSTALLED else located(name) for name in KNOWN}
        say_json(
            [
                {
                    "name": name,
                    "about": corpus.about,
                    "licence": corpus.licence,
                    "origin": corpus.origin,
                    "place": None if places[name] is None else str(places[name]),
                }
                for name, corpus in KNOWN.items()
            ]
        )
        return
    for name, corpus in KNOWN.items():
        place = "installed" if name == INSTALLED else located(name) or f"not here; zoo-data get {name}"
        say(f"{name}: {corpus.about}; {corpus.licence}\n  from {corpus.origin}\n  {place}")
    say(f"folder of corpora: {corpora_folder()} ($ZOO_DATA)")
