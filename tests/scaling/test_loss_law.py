"""The fitted law against a brute-force fit, and its resampling."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import naive_ladder as naive

from zoo.scaling.loss_law import Run, fit_law, huber, law_of, resampled_losses

SIZES = [98_304, 331_776, 786_432]


def true_loss(n: float, d: float) -> float:
    return 1.7 + 30 * n**-0.25 + 60 * d**-0.28


def runs(deviation: float = 0.002, seed: int = 1) -> list[Run]:
    noise = np.random.default_rng(seed)
    budgets = [(n, 20 * n * c) for n in SIZES for c in (0.5, 1, 1, 1, 2)]
    return [Run(n, ((d, true_loss(n, d) * math.exp(noise.normal(0, deviation))),)) for n, d in budgets]


def columns(some: list[Run]) -> tuple[list[float], list[float], np.ndarray]:
    points = [(run.size, d, loss) for run in some for d, loss in run.points]
    n, d, loss = zip(*points, strict=True)
    return list(n), list(d), np.array([loss])


def test_without_noise_the_law_is_found() -> None:
    law = fit_law(*columns(runs(0.0)))
    assert law.loss(3e6, 6e7)[0] == pytest.approx(true_loss(3e6, 6e7), rel=1e-3)
    assert law.exponents[0] == pytest.approx((0.25, 0.28), abs=0.02)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_other_parameters_are_better(seed: int) -> None:
    """A simplex over all five numbers at once, from the truth and from the fit, finds nothing better."""
    from scipy.optimize import minimize

    sizes, tokens, losses = columns(runs(seed=seed))
    points = list(zip(sizes, tokens, losses[0], strict=True))
    law = fit_law(sizes, tokens, losses)
    (e, a, b), (alpha, beta) = law.terms[0], law.exponents[0]
    own = (e, a * law.scales[0] ** alpha, b * law.scales[1] ** beta, alpha, beta)
    assert naive.law_cost(own, points) == pytest.approx(law.cost[0], rel=1e-6)

    def cost(logs: np.ndarray) -> float:
        return naive.law_cost([math.exp(min(each, 50.0)) for each in logs], points)

    for start in (own, (1.7, 30, 60, 0.25, 0.28), (1.0, 10, 10, 0.2, 0.2)):
        logs = np.log(np.maximum(start, 1e-9))
        for _ in range(4):  # a simplex that has collapsed starts again
            logs = minimize(cost, logs, method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-14}).x
        assert law.cost[0] <= cost(logs) * 1.01


def test_no_coefficient_is_negative() -> None:
    """Losses that rise with size would ask for a negative A."""
    sizes, tokens = [1e5, 2e5, 4e5, 8e5], [1e6, 4e6, 1e6, 4e6]
    law = fit_law(sizes, tokens, np.array([[3.0, 2.9, 3.1, 3.0]]))
    assert (law.terms >= 0).all() and law.terms[0, 1] == 0


def test_huber_is_a_square_then_a_line() -> None:
    assert huber(np.array([0.0, 5e-4, 1e-3, -2e-3])) == pytest.approx([0, 1.25e-7, 5e-7, 1.5e-6])


def test_one_outlier_moves_the_law_little() -> None:
    sizes, tokens, losses = columns(runs(0.0))
    losses[0, 3] *= 1.2
    assert fit_law(sizes, tokens, losses).loss(3e6, 6e7)[0] == pytest.approx(true_loss(3e6, 6e7), rel=0.01)


def test_samples_are_fitted_each_alone() -> None:
    sizes, tokens, one = columns(runs(seed=1))
    other = columns(runs(seed=2))[2]
    both = fit_law(sizes, tokens, np.concatenate([one, other]))
    assert both.cost == pytest.approx([fit_law(sizes, tokens, each).cost[0] for each in (one, other)])


def test_the_prediction_has_the_spread_of_the_runs() -> None:
    sample = resampled_losses(runs(), 1.5e6, 3e7, of_mean=2, resamples=200)
    low, high = np.quantile(sample, [0.025, 0.975])
    assert low < law_of(runs()).loss(1.5e6, 3e7)[0] < high and low < true_loss(1.5e6, 3e7) < high
    assert high - low < 0.05
    assert (resampled_losses(runs(), 1.5e6, 3e7, of_mean=2, resamples=200) == sample).all()


def test_points_of_one_run_are_not_resampled_apart() -> None:
    """Six runs with four budgets each, every run off by one factor: that is six numbers, not twenty-four."""
    noise = np.random.default_rng(0)
    together, apart = [], []
    for n in SIZES * 2:
        factor = math.exp(noise.normal(0, 0.01))
        points = tuple((20 * n * c, true_loss(n, 20 * n * c) * factor) for c in (0.5, 1, 2, 4))
        together.append(Run(n, points))
        apart += [Run(n, (point,)) for point in points]
    wide = np.std(resampled_losses(together, 1.5e6, 3e7, of_mean=100, resamples=200))
    narrow = np.std(resampled_losses(apart, 1.5e6, 3e7, of_mean=100, resamples=200))
    assert wide > 1.5 * narrow


def test_of_two_sizes_rounding_decides_nothing() -> None:
    """Any α goes with some E there: the expected one is taken, and the prediction is as wide as what is not known."""
    two = [run for run in runs() if run.size in sorted({run.size for run in runs()})[:2]]
    sizes, tokens, losses = columns(two)
    law, nudged = fit_law(sizes, tokens, losses), fit_law(sizes, tokens, losses * (1 + 1e-12 * np.cos(losses * 1e6)))
    np.testing.assert_allclose(nudged.exponents, law.exponents, rtol=1e-6)
    assert law.exponents[0, 0] == pytest.approx(0.2, rel=0.01)
    largest = max(run.size for run in two)
    sample = resampled_losses(two, 30 * largest, 600 * largest, 1, resamples=400)
    alone = [fit_law(sizes, tokens, losses, expected=np.log([[alpha, law.exponents[0, 1]]])) for alpha in (0.1, 0.4)]
    low, high = np.quantile(sample, [0.025, 0.975])
    assert all(low < each.loss(30 * largest, 600 * largest)[0] < high for each in alone)
