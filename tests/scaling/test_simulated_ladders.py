"""Ladders whose truth is known: do intervals hold it, and is what should be found found?"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from zoo.scaling.multiplier import Estimate, Overall, multiplier, over_rungs
from zoo.scaling.noise import noise_by_rung, pooled_noise
from zoo.scaling.plain_curve import plain_curve

XS = [36.0 + 1.45 * i for i in range(5)]  # 5.8 e-folds of compute, as from 11 M to 201 M parameters
DEVIATIONS = np.geomspace(0.010, 0.003, 5)
SEEDS = (5, 3, 3, 2, 2)
ARMS = 10  # the plain block, four controls, five methods: all of them say how large the noise is
KAPPA = math.log(1.05)


def plain_loss(x: float) -> float:
    """The slope falls from 0.30 to 0.13 nats per e-fold of compute."""
    z = x - XS[0]
    return 4.0 - 0.305 * z + 0.5 * 0.03 * z * z


def true_slope(x: float) -> float:
    return 0.305 - 0.03 * (x - XS[0])


def simulated(generator: np.random.Generator, trend: float) -> Overall:
    """A ladder whose first method has κ = 1.05 in the middle and this trend per e-fold."""
    middle = sum(XS) / len(XS)
    rungs = []
    for x, sigma, seeds in zip(XS, DEVIATIONS, SEEDS, strict=True):
        arms = plain_loss(x) + generator.normal(0, sigma, (ARMS, seeds))
        arms[1] -= (KAPPA + trend * (x - middle)) * true_slope(x)
        rungs.append(arms)
    noise = noise_by_rung(XS, [pooled_noise(arms.tolist()) for arms in rungs])
    means = [arms.mean(axis=1) for arms in rungs]
    errors = [each.of_mean(seeds) for each, seeds in zip(noise, SEEDS, strict=True)]
    curve = plain_curve(XS, [mean[0] for mean in means], errors)
    overall = over_rungs(
        [
            multiplier(x, Estimate(mean[1] - mean[0], each.of_difference(seeds, seeds), each.degrees), curve.slope(x))
            for x, mean, each, seeds in zip(XS, means, noise, SEEDS, strict=True)
        ]
    )
    assert overall is not None
    return overall


class Outcome(NamedTuple):
    """Over many ladders: how often intervals held the truth, how wide they were, how often a fall was shown."""

    mean: float
    trend: float
    projection: float
    half_width: float
    power: float


def outcome(ladders: int, trend: float) -> Outcome:
    generator = np.random.default_rng(2026)
    middle, far = sum(XS) / len(XS), XS[-1] + math.log(100)
    held = np.zeros(3)
    width = shown = 0.0
    for _ in range(ladders):
        overall = simulated(generator, trend)
        questions = (
            (overall.log, KAPPA + trend * (overall.centre - middle)),
            (overall.trend, trend),
            (overall.projection(far), KAPPA + trend * (far - middle)),
        )
        for i, (estimate, truth) in enumerate(questions):
            low, high = estimate.interval()
            held[i] += low <= truth <= high
        low, high = overall.log.interval()
        width += (high - low) / 2
        shown += overall.trend.interval()[1] < 0
    return Outcome(*(held / ladders), width / ladders, shown / ladders)


def test_a_few_ladders() -> None:
    """Two hundred, with the reach of the chance that so few leave."""
    fading = outcome(200, trend=-0.02)
    assert fading.mean > 0.89 and fading.trend > 0.89 and fading.projection > 0.89
    assert fading.half_width == pytest.approx(0.02, abs=0.003)
    assert fading.power > 0.90


@pytest.mark.slow
def test_two_thousand_ladders() -> None:
    """Coverage 0.95, κ to ± 2 %, a loss of 2 % of κ per e-fold found with power 0.98."""
    constant, fading = outcome(2000, trend=0.0), outcome(2000, trend=-0.02)
    for each in (constant, fading):
        assert all(0.93 <= covered <= 0.97 for covered in (each.mean, each.trend, each.projection))
        assert each.half_width == pytest.approx(0.02, abs=0.002)
    assert fading.power >= 0.96
    assert constant.power <= 0.04  # half of the 5 % that a level allows, and chance
