"""The verdict of a ladder on a method, in words."""

from __future__ import annotations

import math
from typing import NamedTuple

from zoo.scaling.multiplier import Overall
from zoo.statistics.looks import Levels

SINGLE = Levels()  # of a ladder without looks
FAR = math.log(100)  # how far beyond the top rung a gain must reach: a hundred times its compute

VERDICTS = {
    "helps": "the whole interval of κ_time lies above 1: it reaches the plain block's loss in less time",
    "helps, not in time": "the whole interval of κ lies above 1, that of κ_time does not, or it was not measured",
    "fades": "κ is above 1 at these sizes, but falls with compute: at a hundred times the top rung's it may be 1 or less",
    "the same": "the 90 % interval of κ (under looks that of the look's level) lies within the margin around 1",
    "hurts": "the whole interval of κ lies below 1",
    "open": "none of the other verdicts was shown; at an early look (few seeds) p must be below a smaller level than 5 %, so that"
    " a 95 % interval without 1 is not enough",
    "did not train": "at some rung the loss stayed near the unigram entropy, or above the plain block's at a tenth of the budget",
    "diverged": "at some rung a run ended with a loss that is no number",
    "leaks": "it saw later tokens, so that its loss means nothing",
}


class Trouble(NamedTuple):
    """Why losses cannot decide: what went wrong, and at which rung, counted from 1."""

    what: str  # "diverged", "did not train" or "leaks"
    rung: int

    def __str__(self) -> str:
        return self.what if self.what == "leaks" else f"{self.what} at rung {self.rung}"


def ladder_verdict(
    compute: Overall | None,
    time: Overall | None,
    top: float,
    margin: float,
    trouble: Trouble | None = None,
    levels: Levels = SINGLE,
) -> str:
    """The verdict from κ over all rungs, κ_time over all rungs where it was measured, and ln C of the top rung.

    What lies within the margin is the same, even where it was shown not to be 1. Intervals are of 1 − the levels.
    """
    if trouble is not None:
        return str(trouble)
    if compute is None:
        return "open"
    low, high = compute.log.interval(1 - levels.different)
    within = compute.log.interval(1 - levels.same)
    if -math.log1p(margin) <= within[0] and within[1] <= math.log1p(margin):
        return "the same"
    if high < 0:
        return "hurts"
    if not low > 0:
        return "open"
    if fades(compute, top):
        return "fades"
    in_time = time is not None and time.log.interval(1 - levels.different)[0] > 0
    return "helps" if in_time else "helps, not in time"


def fades(compute: Overall, top: float) -> bool:
    """Whether κ falls with compute, beyond its interval, and may be 1 or less at a hundred times the top rung's."""
    return compute.trend.interval()[1] < 0 and compute.projection(top + FAR).interval()[0] <= 0
