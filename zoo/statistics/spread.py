"""Values of one arm: mean, deviation, and an interval of the median."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

CONFIDENCE = 0.95


class Spread(NamedTuple):
    """Values of one arm over its seeds."""

    n: int
    mean: float
    deviation: float  # NaN for a single value


def spread(values: Sequence[float]) -> Spread:
    """Mean and deviation of values."""
    n, mean = len(values), statistics.fmean(values) if values else math.nan
    # Not statistics.stdev, which is exact and a hundred times slower.
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Spread(n, mean, math.sqrt(squares / (n - 1)) if n > 1 else math.nan)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Two of the values, with the true median between them in 95 % of cases or more; of few values the outermost."""
    ranked, n = sorted(values), len(values)
    outside, least = 0.0, 0  # the chance that so many values lie on one side of the median, and how many are cut off
    for k in range(n // 2):
        outside += math.comb(n, k) / 2**n
        if outside > (1 - CONFIDENCE) / 2:
            break
        least = k
    return ranked[least], ranked[n - 1 - least]
