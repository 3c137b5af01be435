"""The two-way model, Dunnett's test and moderated variances against R's lm, multcomp and limma.

The constants are what tests/statistics/reference.R printed under R 4.2.2, limma 3.54.1, multcomp 1.4-22, mvtnorm 1.1-3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy
import pytest
from scipy.special import polygamma

import zoo.statistics.dunnett as dunnett
import zoo.statistics.two_way as two_way
from zoo.scaling.noise import _inverse_trigamma, _log_bias
from zoo.statistics.difference import Difference
from zoo.statistics.dunnett import Question, adjusted_ps
from zoo.statistics.moderation import Prior, family_prior, moderated

LOSSES = numpy.array(
    [
        [4.5312, 4.5520, 4.5187, 4.5401],  # plain
        [4.4978, 4.5204, 4.4891, 4.5013],
        [4.5405, 4.5498, 4.5333, 4.5467],
        [4.5290, 4.5611, 4.5120, 4.5333],
        [4.5151, 4.5283, 4.4958, 4.5322],
        [4.6120, 4.5530, 4.5911, 4.6412],
    ]
)
# lm(loss ~ arm + seed): arms less plain, their common error, p (Dunnett) of glht(fit, mcp(arm = "Dunnett"))
RESIDUAL, DEGREES = 0.000347044888889, 15
CONTRASTS = [-0.033350, 0.007075, -0.001650, -0.017650, 0.063825]
ERROR = 0.0131727918242
DUNNETT = [0.085106056838, 0.974259409271, 0.999971848020, 0.551512582526, 0.000933189879]
# The same, without seeds, of plain with four runs and three methods with three
UNEQUAL_CONTRASTS = [-0.0330666666667, 0.0057, -0.0224333333333]
UNEQUAL_RESIDUAL, UNEQUAL_DEGREES, UNEQUAL_ERROR = 0.000198597037037, 9, 0.0107632834955
UNEQUAL_DUNNETT = [0.0342724956163, 0.9171481751174, 0.1601103529675]

# squeezeVar(variances, degrees): d₀, s₀² and the moderated variances
OF_ARMS = [
    6.77727777778e-05,
    1.23306111111e-04,
    3.24337777778e-05,
    2.61620777778e-04,
    3.52527777778e-05,
    1.56188311111e-03,
]
MANY = [0.9, 0.02, 2.1, 0.31, 0.05, 7.7, 0.12, 1.3, 0.44, 3.2, 0.6, 0.27]
UNLIKE = [2.0, 2, 4, 4, 7, 2, 2, 4, 3, 3, 2, 5]
LIMMA = [
    (
        OF_ARMS,
        [2.5] * 6,
        (2.97174086966, 0.000135636841627),
        [1.04630227157e-04, 1.30003017397e-04, 8.84840860836e-05, 1.93198017837e-04, 8.97720673985e-05, 7.87278752062e-04],
    ),
    (
        MANY,
        [4.0] * 12,
        (1.59205454454, 0.300057862009),
        [
            0.729196836397, 0.099732303824, 1.587557562632, 0.307169479331, 0.121191321980, 5.593240951730,
            0.171262364344, 1.015317078475, 0.400158558006, 2.374388228347, 0.514606654838, 0.278557455123,
        ],
    ),
    (
        MANY,
        UNLIKE,
        (1.78102558943, 0.373208341858),
        [
            0.651858483563, 0.186376312556, 1.568007867602, 0.329473304965, 0.115555249977, 4.248766168612,
            0.239272013807, 1.014472867541, 0.415118800331, 2.146964791346, 0.493171379810, 0.297107506891,
        ],
    ),
]  # fmt: skip


@pytest.fixture
def unweighted(monkeypatch: pytest.MonkeyPatch) -> two_way.TwoWay:
    """The fit before its weights: that of lm."""
    monkeypatch.setattr(two_way, "ROUNDS", 1)
    return two_way.fit_two_way(LOSSES)


def test_the_unweighted_fit_is_lms(unweighted: two_way.TwoWay) -> None:
    fit = unweighted
    assert fit.pooled_degrees == pytest.approx(DEGREES)
    assert fit.degrees @ fit.variances / fit.pooled_degrees == pytest.approx(RESIDUAL, rel=1e-9)
    assert fit.variances == pytest.approx(OF_ARMS, rel=1e-9) and fit.degrees == pytest.approx(2.5)
    for arm, contrast in enumerate(CONTRASTS, start=1):
        assert fit.difference(arm, 0).mean == pytest.approx(contrast, abs=1e-12)


def questions_of_lm() -> list[Question]:
    return [
        Question(Difference(n=4, n_other=4, mean=m, error=ERROR, degrees=DEGREES, shared=0.5, pooled=True), "plain")
        for m in CONTRASTS
    ]


def unequal_questions() -> list[Question]:
    shared = (1 / 4) / (1 / 3 + 1 / 4)
    return [
        Question(
            Difference(
                n=3, n_other=4, mean=m, error=UNEQUAL_ERROR, degrees=UNEQUAL_DEGREES, shared=shared, pooled=True
            ),
            "plain",
        )
        for m in UNEQUAL_CONTRASTS
    ]


def test_one_variance_for_all_gives_lms_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where moderation is complete (d₀ infinite) the model is the textbook's."""
    pooled = Prior(math.inf, RESIDUAL, 2 / DEGREES)
    monkeypatch.setattr(two_way, "family_prior", lambda s2, d: pooled)
    fit = two_way.fit_two_way(LOSSES)
    for arm, asked in enumerate(questions_of_lm(), start=1):
        found = fit.difference(arm, 0)
        assert found.error == pytest.approx(ERROR, rel=1e-9) and found.degrees == pytest.approx(DEGREES)
        assert found.mean == pytest.approx(asked.difference.mean) and found.shared == pytest.approx(0.5)
        assert found.pooled


def test_p_values_are_multcomps() -> None:
    """As they are computed for a report, with rounded loadings: to 0.0015, and to 0.0003 where they decide."""
    assert math.sqrt(UNEQUAL_RESIDUAL * (1 / 3 + 1 / 4)) == pytest.approx(UNEQUAL_ERROR, rel=1e-9)
    for questions, expected in ((questions_of_lm(), DUNNETT), (unequal_questions(), UNEQUAL_DUNNETT)):
        found = adjusted_ps(questions)
        assert found == pytest.approx(expected, abs=1.5e-3)
        decisive = [i for i, p in enumerate(expected) if p < 0.1]
        assert [found[i] for i in decisive] == pytest.approx([expected[i] for i in decisive], abs=3e-4)


def test_with_more_nodes_p_values_are_multcomps_to_six_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the difference is the rounding of loadings and of the integral: the formula is the same."""
    for name, value in (("NORMAL", 40), ("CHI", 60), ("STEP", 1e-6)):
        monkeypatch.setattr(dunnett, name, value)
    nodes = dunnett._normal_nodes, dunnett._unit_nodes
    for of in nodes:
        of.cache_clear()
    try:
        assert adjusted_ps(questions_of_lm()) == pytest.approx(DUNNETT, abs=1e-6)
        assert adjusted_ps(unequal_questions()) == pytest.approx(UNEQUAL_DUNNETT, abs=1e-6)
    finally:
        for of in nodes:
            of.cache_clear()


def by_moments(variances: Sequence[float], degrees: Sequence[float]) -> Prior:
    """Smyth's estimate of d₀ and s₀² (limma's fitFDist) with the functions that the noise of ladders is moderated by."""
    logs = numpy.array([math.log(s2) - _log_bias(d) for s2, d in zip(variances, degrees, strict=True)])
    explained = float(numpy.mean(polygamma(1, numpy.array(degrees) / 2)))
    d0 = 2 * _inverse_trigamma(float(logs.var(ddof=1)) - explained)
    return Prior(d0, math.exp(float(logs.mean()) + _log_bias(d0)))


@pytest.mark.parametrize(("variances", "degrees", "prior", "posterior"), LIMMA)
def test_moderated_variances_at_limmas_prior_are_limmas(
    variances: list[float], degrees: list[float], prior: tuple[float, float], posterior: list[float]
) -> None:
    found = by_moments(variances, degrees)
    assert found[:2] == pytest.approx(prior, rel=1e-6)
    assert moderated(variances, degrees, Prior(*prior)) == pytest.approx(posterior, rel=1e-9)
    assert found.total_degrees(degrees[0]) == pytest.approx(prior[0] + degrees[0], rel=1e-6)  # limma's df.total


@pytest.mark.parametrize(("variances", "degrees", "prior", "posterior"), LIMMA)
def test_how_far_the_averaged_prior_is_from_limmas(
    variances: list[float], degrees: list[float], prior: tuple[float, float], posterior: list[float]
) -> None:
    """On purpose (docs/statistics.md): s₀² to a third, moderated variances to a third, and never more degrees than theirs."""
    averaged = family_prior(variances, degrees)
    assert averaged.degrees == pytest.approx(prior[0], rel=0.2)
    assert averaged.variance == pytest.approx(prior[1], rel=0.3)
    assert moderated(variances, degrees, averaged) == pytest.approx(posterior, rel=0.35)
    ratio = averaged.total_degrees(degrees[0]) / (prior[0] + degrees[0])  # limma takes s₀² and d₀ as known
    assert 0.7 < ratio < 1.0


def test_equal_variances_differ_most() -> None:
    """Six variances no further apart than chance: limma's d₀ is infinite, the averaged one is not."""
    alike = [0.8, 1.1, 0.9, 1.2, 1.0, 0.95]
    logs = numpy.log(alike)
    assert logs.var(ddof=1) < float(polygamma(1, 1.25))  # limma: squeezeVar(alike, 2.5)$df.prior is Inf
    assert 2 < family_prior(alike, [2.5] * 6).degrees < 40
