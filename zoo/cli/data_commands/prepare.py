"""zoo-data prepare: a corpus made ready for training, once for all runs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from zoo.cli.data_commands.described import described, opened, settings_of
from zoo.cli.data_commands.show import lines
from zoo.cli.data_commands.verify import report
from zoo.cli.printing import say, shown_log

HELP = "split and encode a corpus, once for all runs; the first zoo-train does the same"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the corpus, how it is read and encoded, and where it goes."""
    described(parser)
    parser.add_argument("--into", type=Path, metavar="DIR", help="the folder to make (default: one in the cache)")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="the number of processes that encode (default: one per core)"
    )
    parser.add_argument("--verify", action="store_true", help="check every byte of it at the end")


def run(arguments: argparse.Namespace) -> int:
    """Prepare what the flags name, and say what came of it."""
    from zoo.errors import ZooError

    if arguments.workers is not None and arguments.workers < 1:
        raise ZooError(f"--workers {arguments.workers} must be 1 or more")
    settings = settings_of(arguments)
    _check_folder(arguments.into, settings)
    code = 0
    with shown_log("zoo-data"):
        for each in opened(settings, arguments.into, arguments.workers):
            say("\n".join(lines(each.folder)))
            if arguments.verify:
                code = max(code, report(each.folder))
    return code


def _check_folder(into: Path | None, settings: dict[str, Any]) -> None:
    """Refuse a folder that cannot be made, that holds something else, or that several corpora would share."""
    from zoo.data.manifest import is_prepared
    from zoo.data.opening import named_folder
    from zoo.errors import ZooError

    if into is None:
        return
    if not isinstance(settings["corpus"], str):
        raise ZooError("--into takes one corpus, and data.corpus is a mixture; prepare it in the cache")
    if named_folder(settings["corpus"]):
        raise ZooError(f"{settings['corpus']} is prepared already; copy it with its times (cp -a), without --into")
    try:
        parent = into.absolute().parent
        parent.mkdir(parents=True, exist_ok=True)
        if not os.access(parent, os.W_OK | os.X_OK):
            raise ZooError(f"--into {into} cannot be made: {parent} cannot be written; name another folder")
        free = not into.exists() or is_prepared(into) or (into.is_dir() and not any(into.iterdir()))
    except OSError as error:
        raise ZooError(f"--into {into} cannot be made: {error.strerror}; name another folder") from error
    if not free:
        raise ZooError(f"--into {into} holds something that is no prepared corpus; name another folder")
