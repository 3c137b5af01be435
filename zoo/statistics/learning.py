"""Whether an arm has learned anything: comparing one that has not says nothing of its idea."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from zoo.statistics.difference import from_bound


def learned_nothing(losses: Sequence[float], entropy: float, early: float) -> bool:
    """Whether the mean of an arm's losses over its seeds is not clearly below the unigram entropy, or above `early`.

    Clearly: so is the upper end of its 95 % interval, by Student's t of these seeds alone, as what fails has a variance of
    its own; of one seed, the loss. `early` is the plain block's loss at a tenth of its tokens. What is not known (NaN, or
    no losses) speaks for neither.
    """
    if not losses:
        return False
    mean, high = statistics.fmean(losses), from_bound(losses, 0.0).high
    return (mean if math.isnan(high) else high) >= entropy or mean > early
