"""Paired comparisons: what a handful of seeds says, and what it could have said."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

CONFIDENCE = 0.95
POWER = 0.8
RESAMPLES = 10_000


class Spread(NamedTuple):
    """Values of one arm over its seeds."""

    n: int
    mean: float
    deviation: float  # NaN for a single value


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Method minus baseline, seed by seed. Negative is better: these are losses. What one pair cannot tell is NaN."""

    n: int
    mean: float
    deviation: float = math.nan
    low: float = math.nan  # 95 % interval by Student's t
    high: float = math.nan
    boot_low: float = math.nan  # the same interval by resampling the seeds
    boot_high: float = math.nan
    p: float = math.nan  # two-sided, of the mean being zero


def spread(values: Sequence[float]) -> Spread:
    """Mean and deviation of values."""
    n, mean = len(values), statistics.fmean(values) if values else math.nan
    # Not statistics.stdev, which is exact and a hundred times slower.
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Spread(n, mean, math.sqrt(squares / (n - 1)) if n > 1 else math.nan)


def paired(method: Sequence[float], baseline: Sequence[float]) -> Paired:
    """Compare values of the same seeds, in the same order. A single pair has a difference and nothing more."""
    differences = [m - b for m, b in zip(method, baseline, strict=True)]
    n, mean, deviation = spread(differences)
    if n < 2:
        return Paired(n=n, mean=mean)
    from scipy.special import stdtr, stdtrit

    error = deviation / math.sqrt(n)
    reach = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))
    p = 2 * float(stdtr(n - 1, -abs(mean) / error)) if error else float(mean == 0)
    boot_low, boot_high = bootstrap(differences)
    return Paired(
        n=n,
        mean=mean,
        deviation=deviation,
        low=mean - reach * error,
        high=mean + reach * error,
        boot_low=boot_low,
        boot_high=boot_high,
        p=p,
    )


def detectable(n: int, deviation: float, questions: int) -> float:
    """The smallest true difference revealed with 80 % power, when this is the first of `questions` by Holm's order."""
    return math.nan if n < 2 else _noncentral(n, questions) * deviation / math.sqrt(n)


@functools.cache
def _noncentral(n: int, questions: int) -> float:
    """The noncentrality at which Student's t of n pairs is significant four times of five."""
    from scipy.special import nctdtrinc, stdtrit

    reach = float(stdtrit(n - 1, 1 - (1 - CONFIDENCE) / (2 * questions)))
    return float(nctdtrinc(n - 1, 1 - POWER, reach))


def bootstrap(differences: Sequence[float]) -> tuple[float, float]:
    """The percentile interval of the mean; always the same for the same values."""
    import numpy

    counts, times = _resamples(len(differences))
    means = counts @ numpy.asarray(differences) / len(differences)
    order = numpy.argsort(means)
    below = numpy.cumsum(times[order])  # resamples whose mean is this or less
    tail = (1 - CONFIDENCE) / 2
    ranks = math.floor(tail * RESAMPLES), math.ceil((1 - tail) * RESAMPLES) - 1
    low, high = means[order[numpy.searchsorted(below, ranks, side="right")]]
    return float(low), float(high)


@functools.cache
def _resamples(n: int) -> tuple[Any, Any]:
    """The resamples of n values, the same for all: how often each has each value, and how often that came up.

    Of few values there are few different ones (10 of three), which is what makes thousands of comparisons quick.
    """
    import numpy

    drawn = numpy.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    counts = numpy.stack([numpy.bincount(row, minlength=n) for row in drawn])
    return numpy.unique(counts, axis=0, return_counts=True)


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


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for having asked several questions (Holm 1979); NaN is not a question."""
    asked = sorted((p, i) for i, p in enumerate(values) if not math.isnan(p))
    corrected = list(values)
    largest = 0.0
    for rank, (p, i) in enumerate(asked):
        largest = max(largest, min(1.0, (len(asked) - rank) * p))
        corrected[i] = largest
    return corrected
