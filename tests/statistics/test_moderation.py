"""Moderated variances against a naive implementation that finds its roots by bisection, and what follows from the formula."""

from __future__ import annotations

import math

import numpy
import pytest
from scipy import integrate, special

from zoo.statistics.moderation import Prior, cautious_prior, family_prior, moderated, trigamma_inverse

VARIANCES = [0.9, 0.0004, 2.1, 0.31, 0.05, 7.7, 0.012, 1.3]


def naive_trigamma(x: float) -> float:
    """Σ 1/(x+k)², with the tail as an integral: no library."""
    return sum(1 / (x + k) ** 2 for k in range(20_000)) + 1 / (x + 20_000 - 0.5)


def naive_digamma(x: float) -> float:
    """The derivative of ln Γ by central difference."""
    return (math.lgamma(x + 1e-5) - math.lgamma(x - 1e-5)) / 2e-5


def naive_prior(variances: list[float], degrees: list[float]) -> tuple[float, float]:
    """fitFDist of limma, from Smyth (2004) section 6.2, by bisection."""
    e = [math.log(v) - naive_digamma(d / 2) + math.log(d / 2) for v, d in zip(variances, degrees, strict=True)]
    mean = sum(e) / len(e)
    left = sum((x - mean) ** 2 for x in e) / (len(e) - 1) - sum(naive_trigamma(d / 2) for d in degrees) / len(e)
    if left <= 0:
        return math.inf, sum(d * v for v, d in zip(variances, degrees, strict=True)) / sum(degrees)
    low, high = 1e-3, 1e4
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if naive_trigamma(middle) > left else (low, middle)
    return 2 * low, math.exp(mean + naive_digamma(low) - math.log(low))


@pytest.mark.parametrize("degrees", [2.0, 4.0, 1.75])
def test_the_prior_is_that_of_smyth(degrees: float) -> None:
    ours, theirs = family_prior(VARIANCES, [degrees] * 8), naive_prior(VARIANCES, [degrees] * 8)
    assert ours.degrees == pytest.approx(theirs[0], rel=1e-4) and ours.variance == pytest.approx(theirs[1], rel=1e-4)
    assert math.isfinite(ours.degrees)


def test_unequal_degrees() -> None:
    degrees = [2.0, 2.0, 4.0, 4.0, 7.0, 2.0, 2.0, 4.0]
    assert family_prior(VARIANCES, degrees) == pytest.approx(naive_prior(VARIANCES, degrees), rel=1e-4)


def test_variances_that_are_alike_are_pooled() -> None:
    alike = [1.0, 1.1, 0.9, 1.05]
    assert family_prior(alike, [4.0] * 4) == Prior(math.inf, pytest.approx(1.0125))
    assert moderated(alike, [4.0] * 4, family_prior(alike, [4.0] * 4)) == pytest.approx([1.0125] * 4)


def test_a_moderated_variance_is_the_mean_of_both_by_degrees() -> None:
    assert moderated([4.0], [2.0], Prior(6.0, 1.0)) == pytest.approx([(6 * 1 + 2 * 4) / 8])
    assert moderated([math.nan], [0.0], Prior(6.0, 1.5)) == pytest.approx([1.5])


def test_few_variances_do_not_make_sure_that_they_are_alike() -> None:
    few, many = cautious_prior([1.0] * 4, [2.0] * 4), cautious_prior([1.0] * 400, [2.0] * 400)
    assert few.degrees < many.degrees < math.inf
    unlike = [10.0 ** (i % 5) for i in range(40)]
    assert cautious_prior(unlike, [4.0] * 40) == family_prior(unlike, [4.0] * 40)
    assert cautious_prior([1.0, 1.0], [1.0, 1.0]).degrees == math.inf  # of one table they are one and the same


def test_zeros_are_no_trouble() -> None:
    assert family_prior([0.0, 0.0], [2.0, 2.0]) == Prior(math.inf, 0.0)
    assert math.isfinite(family_prior([0.0, 1.0, 2.0, 1.5], [2.0] * 4).variance)
    assert family_prior([2.0], [3.0]) == Prior(0.0, 2.0)
    assert math.isnan(family_prior([], []).variance)


@pytest.mark.parametrize("y", [1e-4, 0.3, 1.0, 7.5, 400.0])
def test_trigamma_inverse(y: float) -> None:
    value = integrate.quad(lambda t: t * math.exp(-y * t) / -math.expm1(-t), 0, 60 / y, limit=500)[0]
    assert trigamma_inverse(value) == pytest.approx(y, rel=1e-5)
    assert special.polygamma(1, trigamma_inverse(value)) == pytest.approx(value, rel=1e-6)


def test_drawn_variances_give_their_prior_back() -> None:
    """σ² = d₀ s₀²/χ²(d₀), s² = σ² χ²(d)/d."""
    drawn = numpy.random.default_rng(0)
    sigma = 6.0 * 2.0 / drawn.chisquare(6.0, 20_000)
    prior = family_prior(sigma * drawn.chisquare(4.0, 20_000) / 4.0, numpy.full(20_000, 4.0))
    assert prior.degrees == pytest.approx(6.0, rel=0.1) and prior.variance == pytest.approx(2.0, rel=0.05)
