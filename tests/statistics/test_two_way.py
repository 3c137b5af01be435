"""The two-way model against least squares written out, generalised least squares written out, and Student's paired test."""

from __future__ import annotations

import math

import numpy
import pytest
from scipy import stats

from zoo.statistics.difference import from_bound
from zoo.statistics.spread import median_interval, spread
from zoo.statistics.two_way import fit_two_way

Y = numpy.array(
    [[4.50, 4.47, 4.52], [4.46, 4.42, 4.49], [4.61, 4.55, 4.66], [4.49, 4.47, 4.50], [4.70, 4.61, 4.63]],
)


def test_two_arms_are_students_paired_test() -> None:
    ours, theirs = fit_two_way(Y[:2]).difference(1, 0), stats.ttest_rel(Y[1], Y[0])
    interval = theirs.confidence_interval(0.95)
    assert ours.p == pytest.approx(theirs.pvalue) and ours.degrees == pytest.approx(theirs.df)
    assert (ours.low, ours.high) == (pytest.approx(interval.low), pytest.approx(interval.high))


def dummies(there: numpy.ndarray) -> tuple[numpy.ndarray, list[int]]:
    """The design of arm + seed with indicators, without the first seed; and each row's arm."""
    rows, arms = [], []
    for a, s in zip(*numpy.nonzero(there), strict=True):
        row = numpy.zeros(there.shape[0] + there.shape[1] - 1)
        row[a] = 1
        if s:
            row[there.shape[0] + s - 1] = 1
        rows.append(row)
        arms.append(int(a))
    return numpy.array(rows), arms


def test_variances_and_degrees_are_those_of_least_squares() -> None:
    """Weights equal: residuals and leverages of the hat matrix, arm by arm."""
    table = Y.copy()
    table[2, 1] = table[4, 0] = math.nan
    design, arms = dummies(numpy.isfinite(table))
    y = table[numpy.isfinite(table)]
    hat = design @ numpy.linalg.pinv(design)
    left = (numpy.eye(len(y)) - hat) @ y
    d = [sum(1 - hat[i, i] for i in range(len(y)) if arms[i] == a) for a in range(5)]
    s2 = [sum(left[i] ** 2 for i in range(len(y)) if arms[i] == a) / d[a] for a in range(5)]
    import zoo.statistics.two_way as module

    before, module.ROUNDS = module.ROUNDS, 1
    try:
        fit = fit_two_way(table)
    finally:
        module.ROUNDS = before
    assert fit.degrees == pytest.approx(d) and fit.variances == pytest.approx(s2)
    assert fit.pooled_degrees == pytest.approx(len(y) - numpy.linalg.matrix_rank(design))


def test_the_weighted_fit_is_weighted_least_squares() -> None:
    """With the weights that it ends with nothing else: s² (n − Σ leverage) = Σ residual² under 1/s̃² of the round before."""
    import zoo.statistics.two_way as module

    before, module.ROUNDS = module.ROUNDS, 1
    try:
        first = fit_two_way(Y)
    finally:
        module.ROUNDS = before
    design, arms = dummies(numpy.isfinite(Y))
    w = numpy.diag(1 / first.moderated[arms])
    hat = design @ numpy.linalg.inv(design.T @ w @ design) @ design.T @ w
    left, second = (numpy.eye(15) - hat) @ Y.ravel(), fit_two_way(Y)
    for a in range(5):
        rows = [i for i in range(15) if arms[i] == a]
        assert second.degrees[a] == pytest.approx(sum(1 - hat[i, i] for i in rows))
        assert second.variances[a] == pytest.approx(sum(left[rows] ** 2) / second.degrees[a])


def test_unequal_seeds_are_generalised_least_squares() -> None:
    """The whole covariance written out: σ²(arm) on the diagonal, τ² between runs of one seed."""
    drawn = numpy.random.default_rng(3)
    table = drawn.normal(4.5, 0.02, (6, 8)) + drawn.normal(0, 0.05, 8)
    table[1:, 3:] = math.nan
    table[4, 4] = 4.5
    fit = fit_two_way(table)
    assert fit.seed_variance > 0
    there = numpy.isfinite(table)
    arms, seeds = numpy.nonzero(there)
    v = numpy.diag(fit.moderated[arms]) + fit.seed_variance * (seeds[:, None] == seeds[None, :])
    x = numpy.eye(6)[arms]
    covariance = numpy.linalg.inv(x.T @ numpy.linalg.solve(v, x))
    effects = covariance @ x.T @ numpy.linalg.solve(v, table[there])
    for one, other in ((1, 0), (4, 0), (2, 3)):
        ours = fit.difference(one, other)
        assert ours.mean == pytest.approx(effects[one] - effects[other])
        contrast = numpy.eye(6)[one] - numpy.eye(6)[other]
        assert ours.error == pytest.approx(math.sqrt(contrast @ covariance @ contrast))
    assert (fit.difference(1, 0).n, fit.difference(1, 0).n_other) == (3, 8)


def test_t_is_on_the_degrees_of_the_family_and_of_the_arm() -> None:
    drawn = numpy.random.default_rng(0)
    fit = fit_two_way(drawn.normal(4.5, 0.02, (40, 3)) * (1 + numpy.arange(40)[:, None] % 7 / 200))
    one = fit.difference(1, 0)
    assert one.degrees == pytest.approx(fit.prior.total_degrees(min(fit.degrees[0], fit.degrees[1])))
    assert one.degrees < min(fit.prior.degrees + fit.degrees[1], fit.pooled_degrees)
    assert one.error**2 == pytest.approx((fit.moderated[0] + fit.moderated[1]) / 3)
    assert one.shared == pytest.approx(fit.moderated[0] / (fit.moderated[0] + fit.moderated[1]))


def test_seeds_that_all_arms_share_are_no_noise() -> None:
    """Seeds differ far more than arms: the difference is as sure as without them."""
    without, shifted = fit_two_way(Y), fit_two_way(Y + numpy.array([0.0, 3.0, -5.0]))
    ours, theirs = (fit.difference(1, 0) for fit in (without, shifted))
    assert ours.mean == pytest.approx(theirs.mean) and ours.error == pytest.approx(theirs.error)
    assert shifted.seed_variance > 1


def test_what_one_seed_cannot_tell() -> None:
    table = Y.copy()
    table[1, 1:] = math.nan
    one = fit_two_way(table).difference(1, 0)
    assert (one.n, one.n_other) == (1, 3) and not one.known and math.isnan(one.p) and math.isnan(one.low)
    assert one.mean == pytest.approx(-0.04, abs=0.03) and not one.within(10.0)
    table[1] = math.nan
    assert math.isnan(fit_two_way(table).difference(1, 0).mean)
    assert not fit_two_way([[4.0], [4.1]]).difference(1, 0).known


def test_arms_without_any_noise() -> None:
    same = fit_two_way([[3.0, 3.5, 3.25]] * 3).difference(1, 0)
    assert same.mean == 0 and same.p == 1 and same.within(0.001)
    shifted = fit_two_way([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0]]).difference(1, 0)
    assert shifted.mean == 1 and shifted.p == pytest.approx(0, abs=1e-12)


def test_equivalence_is_two_one_sided_tests() -> None:
    one = fit_two_way(Y).difference(1, 0)
    for margin in (0.01, 0.04, 0.08, 0.2):
        below = stats.t.cdf((one.mean - margin) / one.error, one.degrees)
        above = stats.t.sf((one.mean + margin) / one.error, one.degrees)
        assert one.within(margin) == (max(below, above) <= 0.05)
    assert one.within(0.2) and not one.within(0.0)


@pytest.mark.parametrize("n", [3, 5, 6, 9, 15, 40])
def test_the_interval_of_a_median_covers_it(n: int) -> None:
    """By the exact chance that a sign test gives, and no wider than it must be."""
    low, high = median_interval(list(reversed(range(n))))
    assert high == n - 1 - low
    if n > 5:
        assert 1 - 2 * stats.binom.cdf(low, n, 0.5) >= 0.95 > 1 - 2 * stats.binom.cdf(low + 1, n, 0.5)
    else:
        assert low == 0


def test_the_mean_of_one_arm_against_a_bound() -> None:
    values = [0.7, 0.9, 0.4, 0.65]
    ours, theirs = from_bound(values, 0.5), stats.ttest_1samp(values, 0.5)
    assert (ours.mean, ours.p) == (pytest.approx(0.1625), pytest.approx(theirs.pvalue))
    assert ours.high == pytest.approx(theirs.confidence_interval(0.95).high - 0.5)
    assert spread(values).deviation == pytest.approx(numpy.std(values, ddof=1))
    assert not from_bound([1.0], 0.5).known and math.isnan(spread([]).mean)


@pytest.mark.parametrize("size", [1e99, 1e155, 1e300])
def test_losses_of_any_size_are_compared(size: float) -> None:
    """A run that diverges may end with a loss whose square is no number; in units of it nothing changes."""
    ours, theirs = fit_two_way(size * Y), fit_two_way(Y)
    for one, other in ((1, 0), (4, 2)):
        large, small = ours.difference(one, other), theirs.difference(one, other)
        assert (large.mean / size, large.error / size) == (pytest.approx(small.mean), pytest.approx(small.error))
        assert large.p == pytest.approx(small.p)
    assert ours.deviation / size == pytest.approx(theirs.deviation)
    assert ours.seed_deviation / size == pytest.approx(theirs.seed_deviation)


def test_one_run_of_any_size_leaves_the_others_comparable() -> None:
    table = Y.copy()
    table[4, 0] = 1e300
    difference = fit_two_way(table).difference(1, 0)
    assert difference.n == 3 and math.isfinite(difference.mean)
