"""Planned looks: their bounds against the literature and drawn walks, futility, what a bench expects."""

from __future__ import annotations

import numpy
import pytest
from scipy import stats

from zoo.statistics.looks import _reached, chances_to_go_on, conditional_power, futility_bound, look_at, planned_looks


def test_the_bounds_at_three_five_and_eight_seeds() -> None:
    assert [look.bound for look in planned_looks()] == pytest.approx([3.20, 2.49, 2.00], abs=0.006)


def test_the_integration_gives_what_tables_say() -> None:
    """Five equal looks, 2.5 % spent on each side (gsDesign, ldbounds): 4.877, 3.357, 2.680, 2.290, 2.031."""
    information = [0.2, 0.4, 0.6, 0.8, 1.0]
    reached = numpy.cumsum(_reached(information, [(0.0, b) for b in (4.8769, 3.3569, 2.6803, 2.2898, 2.0310)]))
    z = stats.norm.isf(0.0125)
    assert reached == pytest.approx([4 * stats.norm.sf(z / i**0.5) for i in information], rel=1e-3)


def test_one_look_is_the_test_itself() -> None:
    (only,) = planned_looks((4,))
    assert only.bound == pytest.approx(1.95996, abs=1e-4) and only.level == pytest.approx(0.05)


@pytest.fixture(scope="module")
def walks() -> numpy.ndarray:
    """z of 400,000 arms without a difference, at 3, 5 and 8 seeds."""
    sums = numpy.random.default_rng(0).normal(size=(400_000, 8)).cumsum(axis=1)
    return sums[:, [2, 4, 7]] / numpy.sqrt([3, 5, 8])


def test_all_looks_together_keep_the_level(walks: numpy.ndarray) -> None:
    bounds = [look.bound for look in planned_looks()]
    beyond = numpy.abs(walks) > bounds
    spent = [beyond[:, : k + 1].any(axis=1).mean() for k in range(3)]
    wanted = [2 * stats.norm.sf(1.959964 / i**0.5) for i in (3 / 8, 5 / 8, 1)]
    assert spent == pytest.approx(wanted, abs=1.2e-3)


def test_how_many_arms_go_on(walks: numpy.ndarray) -> None:
    looks = planned_looks()
    going, wanted = numpy.ones(len(walks), bool), []
    for k, look in enumerate(looks[:-1]):
        z = numpy.abs(walks[:, k])
        going &= (z < look.bound) & (z > futility_bound(look, looks[-1]))
        wanted.append(going.mean())
    assert chances_to_go_on(looks) == pytest.approx(wanted, abs=3e-3)


@pytest.mark.parametrize(("z", "seeds"), [(0.5, 3), (2.0, 3), (1.2, 5), (-2.2, 5)])
def test_conditional_power_is_a_chance(z: float, seeds: int) -> None:
    """The rest of the seeds drawn about the difference as it looks now."""
    per_seed = z / numpy.sqrt(seeds)
    rest = numpy.random.default_rng(0).normal(per_seed, 1.0, (200_000, 8 - seeds)).sum(axis=1)
    last = (per_seed * seeds + rest) / numpy.sqrt(8)
    assert conditional_power(z, seeds / 8, 2.0) == pytest.approx((numpy.abs(last) > 2.0).mean(), abs=5e-3)
    assert conditional_power(2.1, 1.0, 2.0) == 1 and conditional_power(1.9, 1.0, 2.0) == 0


def test_the_look_of_so_many_seeds() -> None:
    looks = planned_looks()
    assert [look_at(n, looks).seeds for n in (1, 3, 4, 5, 7, 8, 20)] == [3, 3, 3, 5, 5, 8, 8]
