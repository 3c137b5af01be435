"""Noise pooled over arms, and moderated over rungs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import polygamma

from zoo.scaling.noise import UNKNOWN, Noise, _inverse_trigamma, noise_by_rung, pooled_noise

LINE = [Noise(0.010, 12), Noise(0.007, 12), Noise(0.0049, 12)]


def test_pooled_over_arms() -> None:
    assert pooled_noise([[1.0, 3.0], [5.0, 5.0, 8.0], [7.0]]) == pytest.approx((math.sqrt((2 + 6) / 3), 3))
    assert pooled_noise([[1.0], []]) == UNKNOWN


def test_errors_of_means_and_differences() -> None:
    noise = Noise(0.01, 8)
    assert noise.of_mean(4) == pytest.approx(0.005) and noise.of_difference(4, 4) == pytest.approx(0.01 / math.sqrt(2))


def test_rungs_on_a_line_keep_their_noise_and_gain_degrees() -> None:
    moderated = noise_by_rung([1.0, 2.0, 3.0], LINE)
    assert [each.deviation for each in moderated] == pytest.approx([n.deviation for n in LINE], rel=0.05)
    assert all(each.degrees == 18 for each in moderated)


def test_a_rung_of_few_degrees_is_drawn_to_the_line() -> None:
    (*_, last) = noise_by_rung([1.0, 2.0, 3.0, 4.0], [*LINE, Noise(0.0005, 1)])
    assert 0.0010 < last.deviation < 0.0045 and last.degrees > 1


def test_a_rung_without_two_runs_of_any_arm_takes_the_line() -> None:
    (*_, last) = noise_by_rung([1.0, 2.0, 3.0, 4.0], [*LINE, UNKNOWN])
    assert last.deviation == pytest.approx(0.0034, rel=0.1) and last.degrees > 0


def test_one_known_rung_stands_for_all_and_none_for_none() -> None:
    assert noise_by_rung([1.0, 2.0], [LINE[0], UNKNOWN]) == [LINE[0]] * 2
    assert noise_by_rung([1.0, 2.0], [UNKNOWN, UNKNOWN]) == [UNKNOWN] * 2


def test_rungs_that_scatter_keep_more_of_their_own() -> None:
    scattered = [Noise(0.010, 60), Noise(0.002, 60), Noise(0.009, 60), Noise(0.001, 60)]
    moderated = noise_by_rung([1.0, 2.0, 3.0, 4.0], scattered)
    assert [each.deviation for each in moderated] == pytest.approx([n.deviation for n in scattered], rel=0.2)


@pytest.mark.parametrize("y", [0.3, 1.0, 7.0, 120.0])
def test_inverse_of_trigamma(y: float) -> None:
    assert _inverse_trigamma(float(polygamma(1, y))) == pytest.approx(y)


def test_moderation_is_nearer_to_the_truth() -> None:
    """Over many ladders whose noise falls along a line, the moderated deviation errs less than the rung's own."""
    generator, true = np.random.default_rng(0), np.array([0.010, 0.006, 0.004])
    own_error = moderated_error = 0.0
    for _ in range(200):
        own = [pooled_noise(generator.normal(0, sigma, (4, 3)).tolist()) for sigma in true]
        for sigma, raw, better in zip(true, own, noise_by_rung([1.0, 2.0, 3.0], own), strict=True):
            own_error += math.log(raw.deviation / sigma) ** 2
            moderated_error += math.log(better.deviation / sigma) ** 2
    assert moderated_error < 0.8 * own_error
