"""zoo-data verify: every byte of a prepared corpus, and of the files it was made from, against the manifest."""

from __future__ import annotations

import argparse
from pathlib import Path

from zoo.cli.data_commands.described import described, folders, settings_of
from zoo.cli.printing import say, shown_log

HELP = "check every byte of a prepared corpus, and of the files it was made from"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the corpus."""
    described(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check it; the exit code is 1 if something is not as it was."""
    with shown_log("zoo-data"):
        return max([report(folder) for folder in folders(settings_of(arguments))])


def report(folder: Path) -> int:
    """Say what is not as it was; the exit code."""
    from zoo.data.verification import verify

    outcome = verify(folder)
    for each in outcome.damaged:
        say(f"damaged: {each}; remove {folder} and prepare the corpus again")
    for each in outcome.changed:
        say(f"changed since it was prepared: {each}; zoo-data prepare makes the folder anew")
    if outcome.unchecked:
        say(f"the files it was made from were not checked: {outcome.unchecked}")
    if not outcome.damaged and not outcome.changed:
        say(f"{folder}: every byte is as it was written")
    return 1 if outcome.damaged or outcome.changed else 0
