"""Which time stamps of a store can be right."""

from __future__ import annotations

import datetime
from collections.abc import Sequence


def believable(stamps: Sequence[str]) -> list[str]:
    """The times of the lines of one file, none after now or after a later line's.

    Within a file the order of the lines counts, whatever a clock that was ahead wrote; clocks only order the lines of
    different files.
    """
    latest = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    times = []
    for stamp in reversed(stamps):
        latest = min(stamp, latest)
        times.append(latest)
    return times[::-1]
