"""Paired comparisons: what a handful of seeds says, and what it could have said."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

CONFIDENCE = 0.95
POWER = 0.8
RESAMPLES = 10_000


class Spread(NamedTuple):
    """Values of one arm over its seeds."""

    n: int
    mean: float
    deviation: float  # NaN for a single value


class Paired(NamedTuple):
    """Method minus baseline, seed by seed. Negative is better: these are losses."""

    n: int
    mean: float
    deviation: float
    low: float  # 95 % interval by Student's t
    high: float
    boot_low: float  # … and by resampling the seeds
    boot_high: float
    p: float  # two-sided, of the mean being zero


def spread(values: Sequence[float]) -> Spread:
    deviation = statistics.stdev(values) if len(values) > 1 else math.nan
    return Spread(len(values), statistics.fmean(values) if values else math.nan, deviation)


def paired(method: Sequence[float], baseline: Sequence[float]) -> Paired:
    """Compare values of the same seeds, in the same order. A single pair has a difference and nothing more."""
    differences = [m - b for m, b in zip(method, baseline, strict=True)]
    n, mean, deviation = spread(differences)
    if n < 2:
        return Paired(n, mean, deviation, *[math.nan] * 5)
    from scipy.special import stdtr, stdtrit

    error = deviation / math.sqrt(n)
    reach = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))
    p = 2 * float(stdtr(n - 1, -abs(mean) / error)) if error else float(mean == 0)
    interval = (mean - reach * error, mean + reach * error)
    return Paired(n, mean, deviation, *interval, *bootstrap(differences), p)


def detectable(n: int, deviation: float, questions: int) -> float:
    """The smallest true difference shown four times of five, when this is the first of `questions` by Holm's order."""
    if n < 2:
        return math.nan
    from scipy.special import nctdtrinc, stdtrit

    reach = float(stdtrit(n - 1, 1 - (1 - CONFIDENCE) / (2 * questions)))
    return float(nctdtrinc(n - 1, 1 - POWER, reach)) * deviation / math.sqrt(n)  # t of a true difference is noncentral


def bootstrap(differences: Sequence[float]) -> tuple[float, float]:
    """The percentile interval of the mean; always the same for the same values."""
    import numpy

    drawn = numpy.random.default_rng(0).choice(numpy.asarray(differences), (RESAMPLES, len(differences)))
    means = numpy.sort(drawn.mean(axis=1))
    tail = (1 - CONFIDENCE) / 2
    return float(means[math.floor(tail * RESAMPLES)]), float(means[math.ceil((1 - tail) * RESAMPLES) - 1])


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
