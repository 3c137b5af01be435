"""Moderated variances against a naive implementation, and what follows from the formula."""

from __future__ import annotations

import math

import numpy
import pytest
from scipy import optimize, stats

from zoo.statistics.moderation import Prior, family_prior, moderated

VARIANCES = [0.9, 0.0004, 2.1, 0.31, 0.05, 7.7, 0.012, 1.3]


def naive_prior(variances: list[float], degrees: list[float]) -> tuple[float, float, float]:
    """From the definition, with scipy's F distribution, its maximum by search, its curvature by differences."""
    typical = sum(degrees) / len(degrees)

    def fitted(w: float) -> tuple[float, float, float]:
        d0 = typical * (1 - w) / w

        def likelihood(x: float) -> float:
            return float(stats.f.logpdf(variances, degrees, d0, scale=math.exp(x)).sum())

        bounds = math.log(min(variances)), math.log(max(variances))
        x = optimize.minimize_scalar(
            lambda x: -likelihood(x), bounds=bounds, options={"xatol": 1e-9}, method="bounded"
        ).x
        curvature = -(likelihood(x + 1e-2) - 2 * likelihood(x) + likelihood(x - 1e-2)) / 1e-4
        return likelihood(x) - math.log(curvature) / 2, math.exp(x), curvature

    shares = (numpy.arange(400) + 0.5) / 400
    logs, scale, curvature = numpy.array([fitted(w) for w in shares]).T
    posterior = numpy.exp(logs - logs.max())
    posterior /= posterior.sum()
    own = posterior @ shares
    return (
        typical * (1 - own) / own,
        posterior @ ((1 - shares) * scale) / (1 - own),
        posterior @ ((1 - shares) ** 2 / curvature),
    )


@pytest.mark.parametrize("degrees", [[2.0] * 8, [1.75] * 8, [2.0, 2.0, 4.0, 4.0, 7.0, 2.0, 2.0, 4.0]])
def test_the_prior_is_what_its_definition_says(degrees: list[float]) -> None:
    assert tuple(family_prior(VARIANCES, degrees)) == pytest.approx(naive_prior(VARIANCES, degrees), rel=2e-3)


def test_hundreds_of_variances_are_averaged_over_as_well() -> None:
    """What they leave open of d₀ is narrower than what a few nodes would see."""
    drawn = numpy.random.default_rng(0)
    variances = list(drawn.f(4, 10, size=600))
    assert tuple(family_prior(variances, [4.0] * 600)) == pytest.approx(naive_prior(variances, [4.0] * 600), rel=2e-3)


def test_two_variances_are_pooled() -> None:
    assert family_prior([1.0, 1.0], [1.0, 1.0]) == Prior(math.inf, 1.0, 1.0)
    assert moderated([1.0, 1.2], [4.0] * 2, family_prior([1.0, 1.2], [4.0] * 2)) == pytest.approx([1.1] * 2)


def test_a_moderated_variance_is_the_mean_of_both_by_degrees() -> None:
    assert moderated([4.0], [2.0], Prior(6.0, 1.0)) == pytest.approx([(6 * 1 + 2 * 4) / 8])
    assert moderated([math.nan], [0.0], Prior(6.0, 1.5)) == pytest.approx([1.5])


def test_few_variances_do_not_make_sure_that_they_are_alike() -> None:
    few, many = family_prior([1.0] * 4, [2.0] * 4), family_prior([1.0] * 400, [2.0] * 400)
    assert few.degrees < many.degrees < math.inf and few.doubt > many.doubt > 0


def test_degrees_add_up_as_relative_variances() -> None:
    """Of ν degrees the relative variance is 2/ν; where one variance serves all, ν is all the degrees that there are."""
    assert Prior(6.0, 1.0, 0.1).total_degrees(2.0) == pytest.approx(2 / (2 / 8 + 0.1))
    assert family_prior([1.0, 1.2], [1.5, 1.5]).total_degrees(1.5) == pytest.approx(3.0)
    assert Prior(0.0, 1.0).total_degrees(2.0) == 2.0 and Prior(0.0, 1.0).total_degrees(0.0) == 0.0


def test_zeros_are_no_trouble() -> None:
    assert family_prior([0.0, 0.0], [2.0, 2.0]) == Prior(math.inf, 0.0, 0.5)
    assert math.isfinite(family_prior([0.0, 1.0, 2.0, 1.5], [2.0] * 4).variance)
    assert family_prior([2.0], [3.0]) == Prior(0.0, 2.0)
    assert math.isnan(family_prior([], []).variance)


def test_drawn_variances_give_their_prior_back() -> None:
    """σ² = d₀ s₀²/χ²(d₀), s² = σ² χ²(d)/d."""
    drawn = numpy.random.default_rng(0)
    sigma = 6.0 * 2.0 / drawn.chisquare(6.0, 2_000)
    prior = family_prior(sigma * drawn.chisquare(4.0, 2_000) / 4.0, numpy.full(2_000, 4.0))
    assert prior.degrees == pytest.approx(6.0, rel=0.25) and prior.variance == pytest.approx(2.0, rel=0.1)
