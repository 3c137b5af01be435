"""What one sees while a corpus is prepared: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

SILENT = 30.0  # seconds without a line, where there is no terminal
Advance = Callable[[int], None]  # so many bytes more are done


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """Show how much of `total` bytes is done; nothing where nobody listens, such as on other ranks than the first."""
    if not log.isEnabledFor(logging.INFO) or os.environ.get("RANK", "0") != "0":
        yield lambda done: None
    elif sys.stderr.isatty():
        with _bar(what, total) as advance:
            yield advance
    else:
        yield _lines(what, total)


@contextlib.contextmanager
def _bar(what: str, total: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(None), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True, refresh_per_second=2)
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, advance=done)


def _lines(what: str, total: int) -> Advance:
    done, said = 0, time.monotonic()

    def advance(more: int) -> None:
        nonlocal done, said
        done += more
        if time.monotonic() - said >= SILENT:
            said = time.monotonic()
            log.info("%s: %s of %s MB", what, f"{done / 1e6:,.0f}", f"{total / 1e6:,.0f}")

    return advance
