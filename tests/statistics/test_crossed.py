"""Differences over items and seeds: against closed forms, a naive analysis of variance, and simulated tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from zoo.statistics.crossed import crossed_difference
from zoo.statistics.difference import from_bound, unpaired


def naive(table: list[list[float]]) -> tuple[float, float]:
    """Variance of the mean and degrees of freedom, by the sums of squares of a two-way layout, written out."""
    seeds, items = len(table), len(table[0])
    mean = sum(map(sum, table)) / (seeds * items)
    of_items = [sum(row[i] for row in table) / seeds for i in range(items)]
    of_seeds = [sum(row) / items for row in table]
    ms_i = seeds * sum((m - mean) ** 2 for m in of_items) / (items - 1)
    ms_s = items * sum((m - mean) ** 2 for m in of_seeds) / (seeds - 1)
    ms_e = 0.0
    for s in range(seeds):
        for i in range(items):
            ms_e += (table[s][i] - of_items[i] - of_seeds[s] + mean) ** 2
    ms_e /= (items - 1) * (seeds - 1)
    whole = ms_i + ms_s - ms_e
    below = ms_i**2 / (items - 1) + ms_s**2 / (seeds - 1) + ms_e**2 / ((items - 1) * (seeds - 1))
    return whole / (items * seeds), whole**2 / below


def table(rng: np.random.Generator, seeds: int, items: int, of_items: float, of_seeds: float) -> np.ndarray:
    rows = rng.normal(0, of_items, (1, items)) + rng.normal(0, of_seeds, (seeds, 1))
    return rows + rng.normal(0, 1.0, (seeds, items)) + 0.3


def test_it_is_the_analysis_of_variance() -> None:
    drawn = table(np.random.default_rng(1), 4, 30, 2.0, 1.0)
    found, (variance, degrees) = crossed_difference(drawn.tolist()), naive(drawn.tolist())
    assert found.mean == pytest.approx(drawn.mean()) and found.error == pytest.approx(math.sqrt(variance))
    assert found.degrees == pytest.approx(degrees)


def test_one_seed_is_a_paired_t_test_over_items() -> None:
    rng = np.random.default_rng(2)
    ours, theirs = rng.normal(size=20), rng.normal(size=20)
    expected = stats.ttest_rel(ours, theirs)
    found = crossed_difference([(ours - theirs).tolist()])
    assert found.p == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert found.interval() == pytest.approx((low, high))
    assert not crossed_difference([[1.0], [2.0]]).known  # one item says nothing of others


@pytest.mark.parametrize(("of_items", "of_seeds"), [(0.0, 0.0), (3.0, 0.0), (0.0, 1.0), (2.0, 0.5)])
def test_intervals_cover_the_truth(of_items: float, of_seeds: float) -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        found = crossed_difference(table(rng, 4, 25, of_items, of_seeds))
        covered += found.low <= 0.3 <= found.high
    assert covered / 400 >= 0.92  # never too narrow; too wide where a part is nothing but rest


def test_weights_make_a_ratio_of_sums() -> None:
    rng = np.random.default_rng(4)
    sizes = rng.integers(5, 50, size=60).astype(float)
    bits = rng.normal(0.1, 0.05, size=(3, 60)) * sizes
    found = crossed_difference(bits.tolist(), sizes.tolist())
    assert found.mean == pytest.approx(bits.sum() / (3 * sizes.sum()))
    means = []  # the error is about that of drawing items and seeds again
    for _ in range(3000):
        i, s = rng.integers(0, 60, 60), rng.integers(0, 3, 3)
        means.append(bits[np.ix_(s, i)].sum() / (3 * sizes[i].sum()))
    assert 0.4 < found.error / np.std(means) < 1.6  # the bootstrap of three seeds is rough itself


def test_two_lists_are_compared_by_welch_and_by_pairs() -> None:
    ours, theirs = [3.1, 3.3, 3.0, 3.6], [3.4, 3.9, 3.5]
    assert unpaired(ours, theirs).p == pytest.approx(stats.ttest_ind(ours, theirs, equal_var=False).pvalue)
    pairs = [a - b for a, b in zip(ours, theirs, strict=False)]
    assert from_bound(pairs, 0.0).p == pytest.approx(stats.ttest_rel(ours[:3], theirs).pvalue)
    assert not unpaired([1.0], theirs).known
