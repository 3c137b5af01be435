"""Moderated variances (Smyth 2004): what a family of variances says of each of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

LEAST = 1e-5  # of the median: a variance of zero would have no logarithm
NODES = 16  # of the average over d₀, at least; what many variances leave open is narrow, and asks for more
CLOSE = 1e-6  # relative: s₀² is known as well as that


class Prior(NamedTuple):
    """What the family says of a variance before its own values are seen: as much as so many degrees of freedom."""

    degrees: float  # d₀; infinite where one variance serves all
    variance: float  # s₀²
    doubt: float = 0.0  # the relative variance that s̃² has because s₀² is estimated

    def total_degrees(self, own: float) -> float:
        """The degrees of freedom of a moderated variance that has so many of its own.

        Of so many degrees the relative variance is two over them: that of σ² given s₀², and that of s₀² beside it.
        """
        return 1 / (1 / (self.degrees + own) + self.doubt / 2) if self.degrees + own > 0 else 0.0


def family_prior(variances: Sequence[float] | NDArray[Any], degrees: Sequence[float] | NDArray[Any]) -> Prior:
    """d₀ and s₀² from the variances s² of a family, each with its degrees of freedom d.

    If 1/σ² is spread over the family as χ² on d₀ degrees over d₀ s₀², then s²/s₀² is distributed as F(d, d₀). Few variances
    tell d₀ badly, and the best guess is often infinite where it is not. So it is not guessed but averaged over: the share
    that an arm's own variance has in s̃², w = d/(d₀ + d), is uniform before the variances are seen (Daniels 1999), and so is
    ln s₀² (by Laplace's approximation); the answer has the posterior means of w and of (1 − w) s₀². Two variances of one
    table are the same number twice: they are pooled. A single one says nothing of others: d₀ = 0.
    """
    import numpy

    s2, d = numpy.asarray(variances, float), numpy.asarray(degrees, float)
    if len(s2) < 2:
        return Prior(0.0, float(s2[0]) if len(s2) else math.nan)
    pooled = float(d @ s2 / d.sum())
    if len(s2) < 3 or pooled == 0:
        return Prior(math.inf, pooled, 2 / float(d.sum()))
    s2 = numpy.maximum(s2, LEAST * (float(numpy.median(s2)) or pooled))
    typical = float(d.mean())
    x, weights = _unit_nodes(max(NODES, 2 * math.isqrt(len(s2))))
    prior_degrees = typical * (1 - x) / x
    scale, curvature = _likeliest_scale(s2, d, prior_degrees)
    chances = _log_likelihood(s2, d, prior_degrees, scale) - numpy.log(curvature) / 2
    posterior = weights * numpy.exp(chances - chances.max())
    posterior /= posterior.sum()
    own, rest = float(posterior @ x), float(posterior @ ((1 - x) * scale))
    doubt = float(posterior @ ((1 - x) ** 2 / curvature))
    return Prior(typical * (1 - own) / own, rest / (1 - own), doubt)


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


@functools.cache
def _unit_nodes(count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Nodes and weights for the mean over (0, 1)."""
    import numpy

    x, weights = numpy.polynomial.legendre.leggauss(count)
    return (x + 1) / 2, weights / 2


def _likeliest_scale(
    s2: NDArray[Any], d: NDArray[Any], prior_degrees: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each d₀ the s₀² of largest likelihood, and minus the second derivative there in ln s₀².

    The log likelihood is concave in ln s₀²; its derivative, Σ (d + d₀)/2 q − d/2 with q = d s²/(d s² + d₀ s₀²), is zero
    between the smallest and the largest s². Newton's steps are kept between those.
    """
    import numpy

    half = (d + prior_degrees[:, None]) / 2
    low, high = (numpy.full(len(prior_degrees), math.log(end)) for end in (s2.min(), s2.max()))
    log_scale = numpy.full(len(prior_degrees), math.log(float(d @ s2 / d.sum())))
    while True:
        q = 1 / (1 + prior_degrees[:, None] * numpy.exp(log_scale)[:, None] / (d * s2))
        slope, curvature = (half * q).sum(axis=1) - d.sum() / 2, (half * q * (1 - q)).sum(axis=1)
        low, high = numpy.where(slope > 0, log_scale, low), numpy.where(slope > 0, high, log_scale)
        step = log_scale + slope / curvature
        step = numpy.where((low < step) & (step < high), step, (low + high) / 2)
        if numpy.abs(step - log_scale).max() < CLOSE:
            return numpy.exp(log_scale), curvature
        log_scale = step


def _log_likelihood(
    s2: NDArray[Any], d: NDArray[Any], prior_degrees: NDArray[Any], scale: NDArray[Any]
) -> NDArray[Any]:
    """The log likelihood of variances s² ~ s₀² F(d, d₀) at each d₀ and its s₀², but for a constant."""
    import numpy
    from scipy.special import gammaln

    d0 = prior_degrees[:, None]
    ratio = d * s2 / (d0 * scale[:, None])
    shape = gammaln((d + d0) / 2) - gammaln(d0 / 2)
    return numpy.asarray((shape + d / 2 * numpy.log(ratio) - (d + d0) / 2 * numpy.log1p(ratio)).sum(axis=1))
