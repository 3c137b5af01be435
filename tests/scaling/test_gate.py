"""What a planned look at the smallest rungs decides, and at which level a verdict is made there."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from zoo.scaling.gate import HELPS, HOPELESS, HURTS, Gate
from zoo.scaling.multiplier import Estimate, Multiplier, over_rungs

LOOKS = (3, 5, 8)


def gate(t: float, seeds: int, degrees: float = math.inf, passed: bool = False) -> Gate:
    """A method whose ln κ is so many errors from 0."""
    return Gate(LOOKS, seeds, over_rungs([Multiplier(30.0, Estimate(0.01 * t, 0.01, degrees))]), passed)


@pytest.mark.parametrize(
    ("t", "seeds", "reason"),
    [
        (3.25, 3, HELPS),
        (3.15, 3, ""),
        (-2.27, 3, ""),  # beyond 1.96, and far from the first look's bound
        (-3.25, 3, HURTS),
        (3.15, 4, ""),  # the second look has not been reached
        (2.52, 5, HELPS),
        (-2.52, 5, HURTS),
        (2.45, 5, ""),
        (0.3, 3, HOPELESS),
        (2.03, 8, HELPS),
        (1.97, 8, HOPELESS),  # there is no further look
    ],
)
def test_the_bounds_of_the_looks(t: float, seeds: int, reason: str) -> None:
    assert gate(t, seeds).reason() == reason


def test_few_degrees_of_freedom_are_no_normal_distribution() -> None:
    """An arm that stands by its own scatter: t = −6.4 on 2.1 degrees is p = 0.02, and 3.20 is a p of 0.0014."""
    wide = gate(-6.4, 3, degrees=2.1)
    assert wide.compute is not None
    assert wide.compute.log.p == pytest.approx(2 * stats.t.sf(6.4, 2.1)) and 0.015 < wide.compute.log.p < 0.025
    assert wide.reason() == ""
    assert gate(-6.4, 3, degrees=30).reason() == HURTS


def test_levels_are_those_of_the_look_that_was_reached() -> None:
    different = [gate(1.0, seeds).levels.different for seeds in (1, 3, 4, 5, 8, 9)]
    assert different == pytest.approx([0.00137, 0.00137, 0.00137, 0.0128, 0.0449, 0.0449], abs=2e-4)
    assert gate(1.0, 3, passed=True).levels == gate(1.0, 8).levels
    same = [gate(1.0, seeds).levels.same for seeds in (3, 5, 8)]
    assert same == sorted(same) and same[0] < 0.01 and 0.08 < same[-1] < 0.10


def test_nothing_known_is_no_reason() -> None:
    assert Gate(LOOKS, 0, None, passed=False).reason() == ""


@pytest.mark.parametrize("degrees", [2.1, 30, math.inf])
def test_p_is_that_of_the_interval_that_ends_at_zero(degrees: float) -> None:
    log = Estimate(-0.05, 0.02, degrees)
    low, high = log.interval(1 - log.p)
    assert max(low, high, key=abs) == low and high == pytest.approx(0, abs=1e-9)
    assert math.isnan(Estimate(1.0, math.nan, 0).p)
