"""Moderated variances (Smyth 2004): what a family of variances says of each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

CAUTION = 1 / 3  # of a standard error; simulated: intervals then cover 94 to 97 % whether variances are alike or not
LEAST = 1e-5  # of the median: a variance of zero would have no logarithm


class Prior(NamedTuple):
    """What the family says of a variance before its own values are seen: as much as so many degrees of freedom."""

    degrees: float  # d₀; infinite where the variances differ no more than chance makes them
    variance: float  # s₀²


def family_prior(variances: Sequence[float] | NDArray[Any], degrees: Sequence[float] | NDArray[Any]) -> Prior:
    """d₀ and s₀² from the variances s² of a family, each with its degrees of freedom d.

    If 1/σ² is spread over the family as χ² on d₀ degrees over d₀ s₀², then e = ln s² − ψ(d/2) + ln(d/2) has the mean
    ln s₀² − ψ(d₀/2) + ln(d₀/2) and, beyond ψ′(d/2), the variance ψ′(d₀/2), which is solved for d₀. Where nothing is left
    beyond ψ′(d/2), d₀ is infinite and s₀² the pooled variance. A single variance says nothing of others: d₀ = 0.
    """
    import numpy
    from scipy.special import polygamma, psi

    s2, d = numpy.asarray(variances, float), numpy.asarray(degrees, float)
    if len(s2) < 2:
        return Prior(0.0, float(s2[0]) if len(s2) else math.nan)
    pooled = float(numpy.sum(d * s2) / numpy.sum(d))
    middle = float(numpy.median(s2))
    if pooled == 0:
        return Prior(math.inf, 0.0)
    s2 = numpy.maximum(s2, LEAST * (middle or pooled))
    e = numpy.log(s2) - psi(d / 2) + numpy.log(d / 2)
    excess = float(numpy.var(e, ddof=1) - numpy.mean(polygamma(1, d / 2)))
    if excess <= 0:
        return Prior(math.inf, pooled)
    half = trigamma_inverse(excess)
    return Prior(2 * half, math.exp(float(numpy.mean(e)) + float(psi(half)) - math.log(half)))


def cautious_prior(variances: Sequence[float] | NDArray[Any], degrees: Sequence[float] | NDArray[Any]) -> Prior:
    """The family's prior, with d₀ no larger than so many variances can tell.

    Few variances of few degrees look alike even where they are not. What they could not have shown is not ruled out: as
    the variance of σ² over the family, ψ′(d₀/2), counts at least a third of its standard error, mean ψ′(d/2) √(2/(k−1))
    of k variances. Where that decides, s₀² is exp(mean e). Two variances of one table are one: they are pooled.
    """
    import numpy
    from scipy.special import polygamma, psi

    prior, k = family_prior(variances, degrees), len(variances)
    if k < 3 or prior.variance == 0:
        return prior
    d = numpy.asarray(degrees, float)
    least = CAUTION * float(numpy.mean(polygamma(1, d / 2))) * math.sqrt(2 / (k - 1))
    largest = 2 * trigamma_inverse(least)
    if prior.degrees <= largest:
        return prior
    s2 = numpy.asarray(variances, float)
    s2 = numpy.maximum(s2, LEAST * float(numpy.median(s2)))
    return Prior(largest, math.exp(float(numpy.mean(numpy.log(s2) - psi(d / 2) + numpy.log(d / 2)))))


def moderated(variances: ArrayLike, degrees: ArrayLike, prior: Prior) -> NDArray[Any]:
    """s̃² = (d₀ s₀² + d s²) / (d₀ + d); what has no degrees of its own has the family's."""
    import numpy

    s2, d = numpy.asarray(variances, float), numpy.asarray(degrees, float)
    if math.isinf(prior.degrees):
        return numpy.full_like(s2, prior.variance)
    own = numpy.where(d > 0, d * s2, 0.0)
    total = prior.degrees + d
    with numpy.errstate(invalid="ignore"):
        return numpy.where(total > 0, (prior.degrees * prior.variance + own) / total, math.nan)


def trigamma_inverse(value: float) -> float:
    """The y with ψ′(y) = value, by Newton's method on 1/ψ′, which is convex and nearly linear."""
    from scipy.special import polygamma

    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    y = 0.5 + 1 / value
    for _ in range(50):
        at_y = float(polygamma(1, y))
        step = at_y * (1 - at_y / value) / float(polygamma(2, y))
        y += step
        if abs(step) < 1e-10 * y:
            break
    return y
