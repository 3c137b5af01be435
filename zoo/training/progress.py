"""What one sees while it trains: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys

from zoo.training.progress_lines import Lines, Quiet


def progress(step: int, steps: int, show: bool) -> Quiet:
    """The right one for where it is seen."""
    if not show:
        return Quiet()
    if not sys.stderr.isatty():
        return Lines(step, steps)
    from zoo.training.progress_bar import Bar  # rich takes a while to import

    return Bar(step, steps)
