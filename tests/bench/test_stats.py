"""Statistics against scipy, worked examples and properties."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import asdict

import numpy
import pytest
from scipy import stats as scipy_stats

from zoo.bench.stats import bootstrap, detectable, holm, median_interval, paired


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [2, 3, 8])
def test_paired_equals_scipy(seed: int, n: int) -> None:
    source = random.Random(seed)
    a, b = ([source.gauss(3, 0.1) for _ in range(n)] for _ in range(2))
    ours, theirs = paired(a, b), scipy_stats.ttest_rel(a, b)
    interval = theirs.confidence_interval(0.95)
    assert ours.p == pytest.approx(theirs.pvalue)
    assert (ours.low, ours.high) == (pytest.approx(interval.low), pytest.approx(interval.high))


def test_equal_arms_show_nothing() -> None:
    same = paired([3.0, 3.1, 3.2], [3.0, 3.1, 3.2])
    assert same.mean == 0 and same.p == 1


def test_a_constant_shift_is_certain() -> None:
    shifted = paired([1.0, 2.0], [2.0, 3.0])
    assert shifted.p == 0 and shifted.low == shifted.high == -1


def test_one_pair_has_no_interval() -> None:
    single = paired([3.0], [3.5])
    values = asdict(single)
    assert (values.pop("n"), values.pop("mean")) == (1, -0.5)
    assert all(map(math.isnan, values.values()))  # a statistic that is new too


def test_pairs_must_match() -> None:
    with pytest.raises(ValueError):
        paired([1.0, 2.0], [1.0])


def test_holm_worked_example() -> None:
    """0.01, 0.04, 0.03, 0.005 → 0.03, 0.06, 0.06, 0.02 (Holm 1979)."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_passes_over_what_was_not_asked() -> None:
    corrected = holm([0.02, math.nan, 0.5])
    assert corrected[0] == pytest.approx(0.04) and math.isnan(corrected[1])


def test_bootstrap_is_repeatable_and_brackets_the_mean() -> None:
    values = [0.1, 0.3, 0.2, 0.4]
    low, high = bootstrap(values)
    assert (low, high) == bootstrap(values)
    assert min(values) <= low < 0.25 < high <= max(values)


def test_bootstrap_comes_near_to_every_resample_there_is() -> None:
    values = [0.1, 0.35, 0.2, 0.45]
    exact = sorted(sum(drawn) / 4 for drawn in itertools.product(values, repeat=4))
    wanted = exact[math.floor(0.025 * len(exact))], exact[math.ceil(0.975 * len(exact)) - 1]
    assert bootstrap(values) == pytest.approx(wanted, abs=0.02)


@pytest.mark.parametrize(("n", "questions"), [(2, 1), (3, 1), (3, 30), (5, 7)])
def test_detectable_effect_is_really_detected(n: int, questions: int) -> None:
    """A true difference of that size is shown four times of five, first of so many by Holm's order."""
    sample = numpy.random.default_rng(0).normal(detectable(n, 0.5, questions), 0.5, size=(20_000, n))
    shown = scipy_stats.ttest_1samp(sample, 0, axis=1).pvalue < 0.05 / questions
    assert shown.mean() == pytest.approx(0.8, abs=0.015)


def test_one_seed_could_show_nothing() -> None:
    assert math.isnan(detectable(1, math.nan, 1))


@pytest.mark.parametrize("n", [3, 5, 6, 9, 15, 40])
def test_the_interval_of_a_median_covers_it(n: int) -> None:
    """By the exact chance that a sign test gives, and no wider than it must be."""
    low, high = median_interval(list(reversed(range(n))))
    assert high == n - 1 - low
    if n > 5:
        assert 1 - 2 * scipy_stats.binom.cdf(low, n, 0.5) >= 0.95 > 1 - 2 * scipy_stats.binom.cdf(low + 1, n, 0.5)
    else:
        assert low == 0
