"""κ against its formulas written out, on fixed numbers."""

from __future__ import annotations

import math

import pytest
from helpers import naive_ladder as naive

from zoo.scaling.multiplier import Estimate, Multiplier, in_time, multiplier, over_rungs, quantile
from zoo.scaling.plain_curve import plain_curve

XS = [30.1, 31.7, 33.0, 35.4, 36.2]
LOSSES = [4.31, 3.98, 3.77, 3.41, 3.36]
ERRORS = [0.004, 0.005, 0.003, 0.002, 0.003]
LOGS = [0.08, 0.05, 0.06, 0.01, 0.02]
REACH = [0.03, 0.02, 0.025, 0.02, 0.015]
RUNGS = [Multiplier(x, Estimate(log, error, 9)) for x, log, error in zip(XS, LOGS, REACH, strict=True)]


def test_the_plain_curve_is_the_weighted_quadratic() -> None:
    curve, expected = plain_curve(XS, LOSSES, ERRORS), naive.quadratic(XS, LOSSES, ERRORS)
    for x in (29.0, *XS, 40.0):
        assert curve.loss(x) == pytest.approx(expected(x), rel=1e-6)
        assert curve.slope(x) == pytest.approx(naive.slope(expected, x), rel=1e-4)


def test_the_error_of_the_slope_is_that_of_many_curves() -> None:
    import numpy as np

    curve, generator = plain_curve(XS, LOSSES, ERRORS), np.random.default_rng(0)
    again = [plain_curve(XS, generator.normal(LOSSES, ERRORS).tolist(), ERRORS).slope(XS[0]) for _ in range(2000)]
    assert curve.slope_error(XS[0]) == pytest.approx(np.std(again), rel=0.06)


def test_two_points_make_a_line_and_one_is_refused() -> None:
    curve = plain_curve([1.0, 3.0], [5.0, 4.0], [0.1, 0.2])
    assert curve.slope(0.0) == curve.slope(9.0) == pytest.approx(0.5) and curve.loss(2.0) == pytest.approx(4.5)
    with pytest.raises(ValueError, match="two different points"):
        plain_curve([1.0, 1.0], [5.0, 4.0], [0.1, 0.2])


def test_unknown_errors_weigh_the_same() -> None:
    assert plain_curve(XS, LOSSES, [math.nan] * 5).slope(33.0) == pytest.approx(
        naive.slope(naive.quadratic(XS, LOSSES, [1.0] * 5), 33.0), rel=1e-4
    )


def test_one_rung() -> None:
    """ln κ = −ΔL/s + ln(C_plain/C_method), SE/s; in time × (F_method/F_plain)/ρ."""
    of = multiplier(33.0, Estimate(-0.012, 0.004, 7), slope=0.16, charge=math.log(1 / 1.06))
    assert of.log.value == pytest.approx(0.012 / 0.16 - math.log(1.06)) and of.log.error == pytest.approx(0.025)
    assert math.exp(in_time(of, flops=1.06, time=1.3).log.value) == pytest.approx(math.exp(of.log.value) * 1.06 / 1.3)
    assert in_time(of, 1.06, 1.3).log.error == of.log.error
    assert in_time(of, 1.06, 1.3, time_error=0.06).log.error == pytest.approx(0.065)


def test_a_plain_block_that_does_not_learn_gives_no_multiplier() -> None:
    flat = multiplier(33.0, Estimate(-0.012, 0.004, 7), slope=0.0)
    assert math.isnan(flat.log.value) and over_rungs([flat]) is None
    both = over_rungs([flat, *RUNGS])
    assert both is not None and both.log == over_rungs(RUNGS).log  # type: ignore[union-attr]


def test_all_rungs() -> None:
    overall = over_rungs(RUNGS)
    assert overall is not None
    mean, mean_error, trend, trend_error, centre = naive.line(XS, LOGS, REACH)
    assert overall.log[:2] == pytest.approx((mean, mean_error))
    assert overall.trend[:2] == pytest.approx((trend, trend_error)) and overall.centre == pytest.approx(centre)
    for x in (20.0, 36.2 + math.log(100)):
        projected = overall.projection(x)
        assert projected.value == pytest.approx(mean + trend * (x - centre))
        assert projected.error == pytest.approx(math.hypot(mean_error, (x - centre) * trend_error))


def test_an_error_of_its_own_does_not_change_the_weights() -> None:
    """Of an arm that stands by its own scatter the runs say the error, and the common noise says what a rung weighs."""
    common = over_rungs(RUNGS)
    lucky = [
        each._replace(log=each.log._replace(error=0.001 if i == 2 else 0.2), common=each.log.error)
        for i, each in enumerate(RUNGS)
    ]
    own = over_rungs(lucky)
    assert common is not None and own is not None
    assert own.log.value == pytest.approx(common.log.value) and own.trend.value == pytest.approx(common.trend.value)
    assert own.projection(40.0).value == pytest.approx(common.projection(40.0).value)
    parts = [1 / each**2 for each in REACH]
    errors = [0.001 if i == 2 else 0.2 for i in range(5)]
    expected = math.sqrt(sum((w * e) ** 2 for w, e in zip(parts, errors, strict=True))) / sum(parts)
    assert own.log.error == pytest.approx(expected)


def test_one_rung_has_no_trend() -> None:
    overall = over_rungs(RUNGS[:1])
    assert overall is not None and overall.log[:2] == pytest.approx((0.08, 0.03))
    assert math.isnan(overall.trend.value) and math.isnan(overall.projection(40.0).value)
    assert all(map(math.isnan, overall.trend.interval()))


@pytest.mark.parametrize(("x", "error"), [(37.72, 0.09), (31.13, 0.081), (37.9, 0.067)])
def test_one_rung_has_no_projection_whatever_rounding_leaves(x: float, error: float) -> None:
    """W x / W is not x: the weighted mean of one number is another one, and the spread about it is not 0."""
    overall = over_rungs([Multiplier(x, Estimate(0.08, error, 9))])
    assert overall is not None and overall.centre != x
    assert math.isnan(overall.projection(x + math.log(100)).value) and math.isnan(overall.trend.value)


def test_degrees_of_freedom_add_up_where_rungs_weigh_the_same() -> None:
    equal = over_rungs([Multiplier(x, Estimate(0.0, 0.02, 4)) for x in (1.0, 2.0, 3.0)])
    assert equal is not None and equal.log.degrees == pytest.approx(12)
    one_sided = over_rungs([Multiplier(1.0, Estimate(0.0, 0.001, 4)), Multiplier(2.0, Estimate(0.0, 1.0, 4))])
    assert one_sided is not None and one_sided.log.degrees == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize(("degrees", "expected"), [(4, 2.776), (10, 2.228), (math.inf, 1.960)])
def test_quantiles_are_those_of_printed_tables(degrees: float, expected: float) -> None:
    assert quantile(degrees, 0.95) == pytest.approx(expected, abs=5e-4)
