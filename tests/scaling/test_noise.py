"""Noise pooled over arms, and moderated over rungs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import polygamma

from zoo.scaling.noise import (
    UNKNOWN,
    WIDE,
    Noise,
    _inverse_trigamma,
    noise_by_rung,
    pooled_noise,
    wide_arms,
    wide_groups,
)

LINE = [Noise(0.010, 12), Noise(0.007, 12), Noise(0.0049, 12)]


def test_pooled_over_arms() -> None:
    assert pooled_noise([[1.0, 3.0], [5.0, 5.0, 8.0], [7.0]]) == pytest.approx((math.sqrt((2 + 6) / 3), 3))
    assert pooled_noise([[1.0], []]) == UNKNOWN


def test_errors_of_means_and_differences() -> None:
    noise = Noise(0.01, 8)
    assert noise.of_mean(4) == pytest.approx(0.005) and noise.of_difference(4, 4) == pytest.approx(0.01 / math.sqrt(2))


def test_two_noises_make_welchs_error() -> None:
    one, other = np.random.default_rng(3).normal(0, 1, 5).tolist(), np.random.default_rng(4).normal(1, 9, 3).tolist()
    welch = stats.ttest_ind(one, other, equal_var=False)
    error = pooled_noise([one]).beside(5, pooled_noise([other]), 3)
    assert error.degrees == pytest.approx(welch.df)
    assert (np.mean(one) - np.mean(other)) / error.deviation == pytest.approx(welch.statistic)
    assert Noise(0.01, 8).beside(5, Noise(0.01, 8), 3) == (Noise(0.01, 8).of_difference(5, 3), 8)


def test_wide_arms_stand_alone() -> None:
    generator = np.random.default_rng(5)
    groups = generator.normal(0, 0.01, (20, 3))
    groups[[4, 11]] = 3 + np.array([[0.0, 0.2, 0.19], [0.0, -0.5, 0.4]])
    assert wide_groups(groups.tolist()) == [11, 4]
    assert wide_groups([[1.0, 1.001], [5.0, 9.0]]) == []  # of two nobody can say which one is wide
    assert wide_groups([[1.0], [2.0, 2.0], [3.0, 3.0, 3.0]]) == wide_groups([]) == []


def test_an_arm_that_is_wide_at_one_rung_is_so_at_all() -> None:
    """Three runs of a wide arm that happen to lie close together would borrow an error that is far too small."""
    generator = np.random.default_rng(7)
    rungs = [{f"m{i}": generator.normal(0, 0.01, 3).tolist() for i in range(12)} for _ in range(2)]
    rungs[0]["m3"] = [0.0, 0.2, -0.3]
    assert wide_groups(list(rungs[1].values())) == [] and wide_arms(rungs) == ["m3"] == wide_arms(rungs[::-1])


def test_arms_of_one_deviation_are_seldom_left_out() -> None:
    generator, tables = np.random.default_rng(6), 1000
    left_out = sum(bool(wide_groups(generator.normal(0, 0.01, (15, 3)).tolist())) for _ in range(tables))
    assert WIDE / 4 < left_out / tables < 2.5 * WIDE


def test_rungs_on_a_line_keep_their_noise_and_gain_degrees() -> None:
    moderated = noise_by_rung([1.0, 2.0, 3.0], LINE)
    assert [each.deviation for each in moderated] == pytest.approx([n.deviation for n in LINE], rel=0.05)
    ends, middle = 12 * 6 / 5, 12 * 3  # as a line of three points is known to 5/6 of one's variance there, and to 1/3
    assert [each.degrees for each in moderated] == pytest.approx([ends, middle, ends], rel=0.1)


def test_two_rungs_say_nothing_of_each_other() -> None:
    """A line goes through any two points: each keeps its deviation and its degrees."""
    own = [Noise(0.015, 40), Noise(0.004, 5)]
    for known, moderated in zip(own, noise_by_rung([1.0, 2.0], own), strict=True):
        assert moderated == pytest.approx(known)


@pytest.mark.parametrize("rungs", [((20, 3), (3, 3)), ((10, 3), (2, 2)), ((20, 3), (4, 3), (4, 3))])
def test_intervals_of_rungs_with_unlike_degrees_hold_the_truth(rungs: tuple[tuple[int, int], ...]) -> None:
    """Many arms at the smallest rung and few above it: 95 % intervals of a difference hold zero that often."""
    generator, ladders, held = np.random.default_rng(8), 600, np.zeros(len(rungs))
    for _ in range(ladders):
        arms = [generator.normal(0, 0.015 * 0.6**rung, shape) for rung, shape in enumerate(rungs)]
        noise = noise_by_rung([30 + 2.0 * rung for rung in range(len(rungs))], [pooled_noise(a.tolist()) for a in arms])
        for rung, (each, losses) in enumerate(zip(noise, arms, strict=True)):
            error = each.of_difference(losses.shape[1], losses.shape[1])
            held[rung] += abs(losses[1].mean() - losses[0].mean()) < stats.t.ppf(0.975, each.degrees) * error
    assert (abs(held / ladders - 0.95) < 0.025).all()  # 2.8 standard errors


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
