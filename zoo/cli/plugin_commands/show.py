"""zoo-plugins show: one method with its card, its settings, its cost, and the Gin lines to use it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cli.printing import say, say_json

if TYPE_CHECKING:
    from zoo.plugins.finder import MethodEntry

HELP = "a method's card, settings and the Gin lines to use it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the method to show."""
    parser.add_argument("id", metavar="ID", help="the method's id, or SLOT.ID")
    parser.add_argument("--json", action="store_true", help="print all that is known about it, with its card")


def run(arguments: argparse.Namespace) -> int:
    """Show a method."""
    from zoo.catalogue.describe import default, describe
    from zoo.catalogue.families import families, phrase
    from zoo.plugins.registry import installed
    from zoo.plugins.resources import card_file, gin_file
    from zoo.plugins.settings import settings_of

    registry = installed()
    parts = registry.parts(arguments.id)
    entry = parts[0].entry
    card, gin = card_file(entry), gin_file(entry)
    if arguments.json:
        say_json(_as_json([part.entry for part in parts], card))
        return 0
    family = families(registry.entries)[entry]
    for part in parts:
        say(f"{part.entry.name} of {part.entry.source} ({part.entry.value})")
    say(f"  what it does  {phrase(entry) or 'neither its card nor its docstring says'}")
    say(f"  family        {family.name} — {family.title}\n")
    say(card.read_text("utf-8", errors="replace").rstrip() if card else "It has no card.")
    for part in parts:
        say("\n" + (f"{part.entry.name}\n" if len(parts) > 1 else "") + describe(part))
    say("\nTo use it")
    if gin:
        say(f"  zoo-train --gin {_short(gin.resolve())}")
    for part in parts:
        assert part.factory is not None
        say(f"  model.{part.entry.slot} = @{part.entry.name}")
        for setting in settings_of(part.factory):
            say(f"  {part.entry.name}.{setting.name} = {default(setting)}")
    return 0


def _as_json(entries: list[MethodEntry], card: Path | None) -> list[dict[str, Any]]:
    from zoo.catalogue import method_list
    from zoo.catalogue.status import plugin_statuses
    from zoo.plugins.registry import installed

    rows = [row for row in method_list.rows(plugin_statuses(installed())) if row.entry in entries]
    text = card.read_text("utf-8", errors="replace") if card else None
    return [{**method_list.as_dict(row), "card_text": text} for row in rows]


def _short(path: Path) -> str:
    """The path as one would type it: from the working directory, else from home, else in full."""
    for base, mark in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return mark + str(path.relative_to(base))
    return str(path)
