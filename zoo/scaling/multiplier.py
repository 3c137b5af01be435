"""κ, the compute multiplier of a method: at one rung, over all rungs, its trend, and its projection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """The logarithm of a multiplier, or the trend of one, with its standard error and the degrees of freedom of that."""

    value: float
    error: float
    degrees: float

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Where the true value lies with this confidence, by Student's t."""
        reach = quantile(self.degrees, confidence) * self.error
        return self.value - reach, self.value + reach

    @property
    def p(self) -> float:
        """Two-sided, of the true value being 0, by Student's t; NaN without degrees of freedom."""
        from scipy.special import ndtr, stdtr

        if not (self.degrees > 0 and self.error > 0):
            return math.nan
        t = -abs(self.value / self.error)
        return 2 * float(ndtr(t) if math.isinf(self.degrees) else stdtr(self.degrees, t))


class Multiplier(NamedTuple):
    """ln κ of one rung."""

    x: float  # ln C of the plain block
    log: Estimate
    common: float = (
        math.nan
    )  # the error that it would have with the noise of all arms of the rung, where it has its own

    @property
    def weight(self) -> float:
        """Its weight among the rungs: W = SE⁻², of the common noise, as its own error, from few runs, is unreliable."""
        return 1 / (self.log.error if math.isnan(self.common) else self.common) ** 2


class Overall(NamedTuple):
    """κ over all rungs, W = SE⁻² of each, by the noise that all arms of a rung have in common."""

    rungs: tuple[Multiplier, ...]
    log: Estimate
    centre: float  # x̄, the weighted mean of x
    trend: Estimate  # the change of ln κ per e-fold of compute; NaN with one rung

    def projection(self, x: float) -> Estimate:
        """ln κ at another compute: ln κ̂ + b̂(x − x̄), SE² = 1/ΣW + (x − x̄)²/ΣW(x − x̄)²."""
        if not _has_trend(self.rungs):
            return Estimate(math.nan, math.nan, 0)
        weights = [each.weight for each in self.rungs]
        total = sum(weights)
        spread = sum(w * (each.x - self.centre) ** 2 for w, each in zip(weights, self.rungs, strict=True))
        parts = [
            w / total + w * (each.x - self.centre) * (x - self.centre) / spread
            for w, each in zip(weights, self.rungs, strict=True)
        ]
        return _combined(self.rungs, parts)


def multiplier(
    x: float, difference: Estimate, slope: float, charge: float = 0.0, common: float = math.nan
) -> Multiplier:
    """ln κ = −ΔL/s + ln(C_plain/C_method), the last being the `charge`; SE = SE(ΔL)/s.

    `common` is what SE(ΔL) would be with the noise of all arms, for one that has its own. NaN where the plain block does
    not learn from more compute: s is not above 0.
    """
    if not slope > 0:
        return Multiplier(x, Estimate(math.nan, math.nan, 0))
    log = Estimate(charge - difference.value / slope, difference.error / slope, difference.degrees)
    return Multiplier(x, log, common / slope)


def in_time(of: Multiplier, flops: float, time: float, time_error: float = 0.0) -> Multiplier:
    """ln κ_time = ln κ + ln(F_method/F_plain) − ln ρ, of the ratios `flops` and `time` (ρ: seconds per token).

    `time_error` is the standard error of ln ρ.
    """
    value, error, degrees = of.log
    log = Estimate(value + math.log(flops / time), math.hypot(error, time_error), degrees)
    return Multiplier(of.x, log, math.hypot(of.common, time_error))


def over_rungs(rungs: Sequence[Multiplier]) -> Overall | None:
    """κ over those rungs whose κ and error are known; None without any."""
    known = tuple(each for each in rungs if math.isfinite(each.log.value) and 0 < each.log.error < math.inf)
    if not known:
        return None
    weights = [each.weight for each in known]
    total = sum(weights)
    centre = sum(w * each.x for w, each in zip(weights, known, strict=True)) / total
    spread = sum(w * (each.x - centre) ** 2 for w, each in zip(weights, known, strict=True))
    trend = Estimate(math.nan, math.nan, 0)
    if _has_trend(known):
        parts = [w * (each.x - centre) / spread for w, each in zip(weights, known, strict=True)]
        trend = _combined(known, parts)
    return Overall(known, _combined(known, [w / total for w in weights]), centre, trend)


def _has_trend(rungs: Sequence[Multiplier]) -> bool:
    """Whether κ is known at two sizes; rounding leaves a single one a spread about its own mean."""
    return len({each.x for each in rungs}) > 1


def _combined(rungs: Sequence[Multiplier], parts: Sequence[float]) -> Estimate:
    """Σ part · ln κ; its degrees of freedom by Satterthwaite, as each rung's error has its own."""
    value = math.fsum(part * each.log.value for part, each in zip(parts, rungs, strict=True))
    variances = [(part * each.log.error) ** 2 for part, each in zip(parts, rungs, strict=True)]
    total = math.fsum(variances)
    uncertain = math.fsum(v**2 / each.log.degrees for v, each in zip(variances, rungs, strict=True))
    return Estimate(value, math.sqrt(total), total**2 / uncertain if uncertain else math.inf)


def quantile(degrees: float, confidence: float) -> float:
    """How many standard errors lie to each side of an interval; NaN without degrees of freedom."""
    from scipy.special import ndtri, stdtrit

    if not degrees > 0:
        return math.nan
    share = 0.5 + confidence / 2
    return float(ndtri(share) if math.isinf(degrees) else stdtrit(degrees, share))
