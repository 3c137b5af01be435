"""zoo-plugins show: one method with its card, its settings, its cost, and the Gin lines to use it."""

from __future__ import annotations

import argparse
from pathlib import Path

from zoo.cli.printing import say

HELP = "a method's card, settings and the Gin lines to use it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the method to show."""
    parser.add_argument("id", metavar="ID", help="the method's id, or SLOT.ID")


def run(arguments: argparse.Namespace) -> int:
    """Show a method."""
    from zoo.catalogue.describe import default, describe
    from zoo.catalogue.families import families, phrase
    from zoo.plugins.registry import installed
    from zoo.plugins.resources import card_file, gin_file
    from zoo.plugins.settings import settings_of

    registry = installed()
    loaded = registry.named(arguments.id)
    entry = loaded.entry
    assert loaded.factory is not None
    card, gin = card_file(entry), gin_file(entry)
    family = families(registry.entries)[entry]
    say(f"{entry.name} of {entry.source} ({entry.value})")
    say(f"  what it does  {phrase(entry) or 'neither its card nor its docstring says'}")
    say(f"  family        {family.name} — {family.title}\n")
    say(card.read_text("utf-8", errors="replace").rstrip() if card else "It has no card.")
    say("\n" + describe(loaded))
    say("\nTo use it")
    if gin:
        say(f"  zoo-train --gin {_short(gin.resolve())}")
    say(f"  model.{entry.slot} = @{entry.name}")
    for setting in settings_of(loaded.factory):
        say(f"  {entry.name}.{setting.name} = {default(setting)}")
    return 0


def _short(path: Path) -> str:
    """The path as one would type it: from the working directory, else from home, else in full."""
    for base, mark in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return mark + str(path.relative_to(base))
    return str(path)
