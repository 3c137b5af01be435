"""Values of one arm: mean and deviation, a test against a bound, an interval of the median."""

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


class Interval(NamedTuple):
    """A mean with its 95 % interval; both ends are NaN where one value says nothing of the others."""

    mean: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Mean and deviation of values."""
    n, mean = len(values), statistics.fmean(values) if values else math.nan
    # Not statistics.stdev, which is exact and a hundred times slower.
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Spread(n, mean, math.sqrt(squares / (n - 1)) if n > 1 else math.nan)


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of values and its 95 % interval by Student's t."""
    n, mean, deviation = spread(values)
    if n < 2:
        return Interval(mean, math.nan, math.nan)
    from scipy.special import stdtrit

    reach = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * deviation / math.sqrt(n)
    return Interval(mean, mean - reach, mean + reach)


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
