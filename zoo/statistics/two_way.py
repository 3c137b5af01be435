"""The two-way model: loss = arm + seed + ε, with a variance of ε for each arm, moderated over the family."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.statistics.difference import Difference
from zoo.statistics.moderation import Prior, family_prior, moderated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

ROUNDS = 2  # of the fit: with equal weights, then with those of the variances that it gave
EXACT = 1e-8  # relative: no loss is known better than that
TINY = 1e-9  # degrees of freedom that are only rounding
HUGE = 1e100  # from here on squares would be too large for a number: values are scaled


class _Arm(NamedTuple):
    """A row of the table."""

    seeds: bytes  # which it has
    n: int
    mean: float
    variance: float  # s̃²
    degrees: float  # of its own


@dataclass(frozen=True, eq=False)
class TwoWay:
    """The model of a table with a row per arm and a column per seed.

    Seeds are random: where two arms have the same seeds their difference is that of the means; a seed that only one of
    them has counts as much as it can tell, by how alike runs of one seed are.
    """

    values: NDArray[Any]  # arm × seed, divided by `scale` as all that follows; NaN where there is no run
    variances: NDArray[Any]  # s² of each arm; NaN without degrees of freedom
    degrees: NDArray[Any]  # d of each arm: its runs, less what arm and seeds were fitted with
    prior: Prior  # d₀ and s₀² of the family
    moderated: NDArray[Any]  # s̃² of each arm
    seed_variance: float  # of the seeds' effects
    scale: float = 1.0

    @functools.cached_property
    def pooled_degrees(self) -> float:
        """The degrees of freedom of all arms together."""
        return float(self.degrees.sum())

    @property
    def deviation(self) -> float:
        """s₀: how far the runs of one arm typically lie apart, seeds aside."""
        return self.scale * math.sqrt(self.prior.variance)

    @property
    def seed_deviation(self) -> float:
        """How far the seeds' effects typically lie apart."""
        return self.scale * math.sqrt(self.seed_variance)

    @functools.cached_property
    def _seeds(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Which runs there are, how many each arm has, and each run's share of its arm's mean."""
        import numpy

        there = numpy.isfinite(self.values)
        n = there.sum(axis=1)
        return there, n, there / numpy.maximum(1, n[:, None])

    @functools.cached_property
    def _arms(self) -> list[_Arm]:
        """What differences are made of, arm by arm: a report asks for thousands."""
        import numpy

        there, n, shares = self._seeds
        means = (numpy.where(there, self.values, 0.0) * shares).sum(axis=1)
        columns = (n.tolist(), means.tolist(), self.moderated.tolist(), self.degrees.tolist())
        return [_Arm(row.tobytes(), *of_arm) for row, *of_arm in zip(there, *columns, strict=True)]

    def difference(self, one: int, other: int) -> Difference:
        """The effect of one arm less that of another."""
        ours, theirs = self._arms[one], self._arms[other]
        if not ours.n or not theirs.n:
            return Difference(n=ours.n, n_other=theirs.n)
        if self.seed_variance > 0 and ours.seeds != theirs.seeds:
            mean, variance, part = self._adjusted(one, other)
        else:
            mean, part = ours.mean - theirs.mean, theirs.variance / theirs.n
            variance = ours.variance / ours.n + part
        if not self.pooled_degrees > TINY or ours.n < 2 or theirs.n < 2:
            return Difference(n=ours.n, n_other=theirs.n, mean=self.scale * mean)
        return Difference(
            n=ours.n,
            n_other=theirs.n,
            mean=self.scale * mean,
            error=self.scale * math.sqrt(variance),
            degrees=self.prior.total_degrees(min(ours.degrees, theirs.degrees)),
            shared=part / variance if variance > 0 else 0.5,
            pooled=math.isinf(self.prior.degrees),
        )

    def _adjusted(self, one: int, other: int) -> tuple[float, float, float]:
        """The difference of arms with unequal seeds, its variance, and the other arm's part of that."""
        import numpy

        there, _, shares = self._seeds
        weights = numpy.zeros(there.shape)  # of each value in the difference
        weights[one] += shares[one]
        weights[other] -= shares[other]
        precisions = _precisions(self.moderated)
        ridge = numpy.eye(there.shape[1]) / self.seed_variance
        system = _seed_system(there, shares, precisions) + ridge
        k = numpy.linalg.lstsq(system, shares[one] - shares[other], rcond=1e-13)[0]
        weights -= precisions[:, None] * there * (k - (shares @ k)[:, None])
        parts = self.moderated * numpy.square(weights).sum(axis=1)  # of the variance, by arm
        seeds = self.seed_variance * float(numpy.square(weights.sum(axis=0)).sum())
        mean = float(numpy.sum(numpy.where(there, self.values, 0.0) * weights))
        return mean, float(numpy.nansum(parts)) + seeds, float(parts[other])


def fit_two_way(values: Sequence[Sequence[float]] | NDArray[Any]) -> TwoWay:
    """Fit the model to a table of arm × seed with NaN where there is no run.

    Arms whose runs lie further apart say less of the seeds: the fit is weighted by 1/s̃², made anew from its residuals.
    """
    import numpy

    y = numpy.asarray(values, float)
    there = numpy.isfinite(y)
    largest = float(numpy.max(numpy.abs(y), initial=0.0, where=there))
    scale = 2.0 ** (math.frexp(largest)[1] - 1) if largest > HUGE else 1.0
    y = y / scale
    n = there.sum(axis=1)
    shares = there / numpy.maximum(1, n[:, None])
    centred = numpy.where(there, y - numpy.sum(numpy.where(there, y, 0.0) * shares, axis=1, keepdims=True), 0.0)
    precisions = numpy.ones(len(y))
    rounding = (EXACT * largest / scale) ** 2
    for _ in range(ROUNDS):
        inverse = numpy.linalg.pinv(_seed_system(there, shares, precisions), rcond=1e-10, hermitian=True)
        effects = inverse @ (precisions @ centred)
        residuals = numpy.where(there, centred - effects + (shares @ effects)[:, None], 0.0)
        degrees = n - (n > 0) - precisions * _seed_leverage(there, shares, inverse)
        degrees = numpy.where(degrees > TINY, degrees, 0.0)
        known = degrees > 0
        squares = numpy.square(residuals).sum(axis=1)
        variances = numpy.divide(squares, degrees, out=numpy.full(len(y), math.nan), where=known)
        variances = numpy.maximum(variances, rounding)
        prior = family_prior(variances[known], degrees[known])
        s2 = moderated(variances, degrees, prior)
        if not known.any():
            break
        precisions = _precisions(s2)
    seed_variance = _seed_variance(there, n, centred, residuals, inverse, shares, precisions)
    return TwoWay(y, variances, degrees, prior, s2, seed_variance, scale)


def _precisions(variances: NDArray[Any]) -> NDArray[Any]:
    """1/s̃², nothing for an arm without one."""
    import numpy

    return numpy.divide(1.0, variances, out=numpy.zeros(len(variances)), where=variances > 0)


def _seed_system(there: NDArray[Any], shares: NDArray[Any], precisions: NDArray[Any]) -> NDArray[Any]:
    """The normal equations of the seeds' effects, once the arms' are eliminated."""
    import numpy

    runs = precisions[:, None] * there
    return numpy.diag(runs.sum(axis=0)) - runs.T @ shares


def _seed_leverage(there: NDArray[Any], shares: NDArray[Any], inverse: NDArray[Any]) -> NDArray[Any]:
    """For each arm, Σ (e − m)ᵀ G⁻ (e − m) over its runs; m is the mean of their seeds' indicators e."""
    import numpy

    mean = numpy.einsum("as,st,at->a", shares, inverse, shares)
    each = numpy.diag(inverse)[None, :] - 2 * shares @ inverse + mean[:, None]
    return numpy.sum(numpy.where(there, each, 0.0), axis=1)


def _seed_variance(
    there: NDArray[Any],
    n: NDArray[Any],
    centred: NDArray[Any],
    residuals: NDArray[Any],
    inverse: NDArray[Any],
    shares: NDArray[Any],
    precisions: NDArray[Any],
) -> float:
    """The variance of the seeds' effects by moments: what they take from the sum of squares, beyond chance."""
    import numpy

    taken = float(precisions @ (numpy.square(centred) - numpy.square(residuals)).sum(axis=1))
    rank = float(numpy.trace(inverse @ _seed_system(there, shares, precisions)))
    per_unit = float(precisions @ numpy.maximum(0, n - 1))
    return max(0.0, (taken - round(rank)) / per_unit) if per_unit > 0 else 0.0
