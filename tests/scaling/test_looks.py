"""Looks: the published bounds, and no more false alarms than the level."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zoo.scaling.looks import conditional_power, look_bounds


def test_the_published_bounds() -> None:
    assert look_bounds((3, 5, 8)) == pytest.approx((3.20, 2.49, 2.00), abs=0.006)
    assert look_bounds((4,)) == pytest.approx((1.96,), abs=0.001)


def test_false_alarms_over_all_looks() -> None:
    draws = np.random.default_rng(0).normal(size=(40_000, 8)).cumsum(axis=1)
    z = np.stack([draws[:, n - 1] / math.sqrt(n) for n in (3, 5, 8)], axis=1)
    assert (np.abs(z) > look_bounds((3, 5, 8))).any(axis=1).mean() == pytest.approx(0.05, abs=0.004)


def test_conditional_power_is_that_of_many_futures() -> None:
    part, z, bound = 3 / 8, 1.5, 2.0
    drift = z / math.sqrt(part)  # of z at the end, should the effect go on
    future = np.random.default_rng(0).normal(drift * (1 - part), math.sqrt(1 - part), 100_000)
    assert conditional_power(z, part, bound) == pytest.approx(
        (np.abs(z * math.sqrt(part) + future) > bound).mean(), abs=0.01
    )
    assert conditional_power(2.1, 1.0, 2.0) == 1 and conditional_power(1.9, 1.0, 2.0) == 0
