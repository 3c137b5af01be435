"""Differences that vary over items and over seeds at once: what they say of other items and other seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zoo.statistics.difference import Difference

if TYPE_CHECKING:
    from numpy.typing import NDArray


def crossed_difference(differences: Sequence[Sequence[float]], weights: Sequence[float] | None = None) -> Difference:
    """The weighted mean of differences (seeds × items), with the error that new items and new seeds would give it.

    Items and seeds are crossed and both drawn at random: d = μ + item + seed + rest. With the mean squares of a two-way
    layout without replication, the variance of the mean of I items and S seeds is (MS_items + MS_seeds − MS_rest)/(I S)
    (Cornfield and Tukey 1956), never less than either part alone gives; degrees of freedom by Satterthwaite. A single seed
    says nothing of other seeds: the error is then over items alone. Weights make the mean a ratio of sums, as bits per
    byte are, whose error is that of its linear part.
    """
    import numpy

    d = numpy.asarray(differences, dtype=numpy.float64)
    seeds, items = d.shape
    w = numpy.ones(items) if weights is None else numpy.asarray(weights, dtype=numpy.float64)
    mean = float(d.sum() / (w.sum() * seeds))
    if items < 2:
        return Difference(n=seeds, n_other=seeds, mean=mean)
    linear = (d - mean * w) / w.mean()  # its mean is zero, and its deviations are those of the ratio
    variance, degrees = _variance(linear)
    return Difference(n=seeds, n_other=seeds, mean=mean, error=math.sqrt(variance), degrees=degrees)


def _variance(d: NDArray[Any]) -> tuple[float, float]:
    """The variance of the mean of a table of seeds × items, and its degrees of freedom."""
    seeds, items = d.shape
    of_items, of_seeds = d.mean(axis=0), d.mean(axis=1)
    ms_items = seeds * float(of_items.var(ddof=1))
    if seeds == 1:
        return ms_items / items, items - 1.0
    ms_seeds = items * float(of_seeds.var(ddof=1))
    rest = d - of_items[None, :] - of_seeds[:, None] + d.mean()
    ms_rest = float((rest**2).sum()) / ((items - 1) * (seeds - 1))
    whole = ms_items + ms_seeds - ms_rest
    if whole <= max(ms_items, ms_seeds):  # one part is nothing but rest
        largest, degrees = max((ms_items, items - 1.0), (ms_seeds, seeds - 1.0))
        return largest / (items * seeds), degrees
    below = ms_items**2 / (items - 1) + ms_seeds**2 / (seeds - 1) + ms_rest**2 / ((items - 1) * (seeds - 1))
    return whole / (items * seeds), whole**2 / below
