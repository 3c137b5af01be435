"""The difference of two arms: its intervals, its p-value, and whether it is within a margin."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from zoo.statistics.looks import SAME_LEVEL
from zoo.statistics.spread import CONFIDENCE, spread


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One arm less another. Negative is better, of losses. What too few seeds cannot tell is NaN."""

    n: int  # seeds of the one
    n_other: int  # seeds of the other
    mean: float = math.nan
    error: float = math.nan  # the standard error
    degrees: float = math.nan  # of freedom
    shared: float = 0.5  # of the variance, the part of the other arm: what differences from that arm have in common
    pooled: bool = False  # the variance is that of all arms together, and as far off for all of them

    @property
    def known(self) -> bool:
        """Whether the seeds say how far the difference may be off."""
        return not math.isnan(self.error)

    def __str__(self) -> str:
        """Difference, interval, p, and what they say together."""
        seeds = f"{self.n}" if self.n == self.n_other else f"{self.n} and {self.n_other}"
        if not self.known:
            why = "a value is not finite" if not math.isfinite(self.mean) else f"seeds {seeds}"
            return f"difference {self.mean:+.4g}, without an interval ({why}): open"
        verdict = "lower, which of losses is better" if self.high < 0 else "higher, which of losses is worse"
        if self.low <= 0 <= self.high and self.error:
            verdict = "open, as the interval has 0 in it"
        elif not self.mean:
            verdict = "the same"
        return (
            f"difference {self.mean:+.4g}, 95 % interval {self.low:+.4g} to {self.high:+.4g}, p = {self.p:.2g}, seeds {seeds}:"
            f" {verdict}"
        )

    @property
    def t(self) -> float:
        """The difference over its standard error."""
        if not self.known:
            return math.nan
        if self.error == 0:
            return math.copysign(math.inf, self.mean) if self.mean else 0.0
        return self.mean / self.error

    @property
    def p(self) -> float:
        """Two-sided, of the difference being zero; of this question alone."""
        from scipy.special import stdtr

        return 2 * float(stdtr(self.degrees, -abs(self.t))) if self.known else math.nan

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Where the true difference is, as sure as that."""
        if not self.known:
            return math.nan, math.nan
        reach = _quantile(self.degrees, 0.5 + confidence / 2) * self.error
        return self.mean - reach, self.mean + reach

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.interval()[1]

    def within(self, margin: float, level: float = SAME_LEVEL) -> bool:
        """Whether the interval, of 90 % by default, lies within ± the margin: two one-sided tests at half the level."""
        low, high = self.interval(1 - level)
        return margin > 0 and -margin <= low and high <= margin


@functools.lru_cache(maxsize=4096)
def _quantile(degrees: float, chance: float) -> float:
    """Student's t that is not exceeded with this chance."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, chance))


def from_bound(values: Sequence[float], bound: float) -> Difference:
    """The mean of values less a number, by Student's t."""
    n, mean, deviation = spread(values)
    error = deviation / math.sqrt(n) if n > 1 else math.nan
    return Difference(n=n, n_other=n, mean=mean - bound, error=error, degrees=n - 1.0)


def unpaired(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """The mean of some values less that of others, with variances of their own (Welch's t)."""
    one, other = spread(ours), spread(theirs)
    mean = one.mean - other.mean
    if min(one.n, other.n) < 2:
        return Difference(n=one.n, n_other=other.n, mean=mean)
    parts = (one.deviation**2 / one.n, other.deviation**2 / other.n)
    total = sum(parts)
    below = parts[0] ** 2 / (one.n - 1) + parts[1] ** 2 / (other.n - 1)
    return Difference(
        n=one.n,
        n_other=other.n,
        mean=mean,
        error=math.sqrt(total),
        degrees=total**2 / below if below else float(one.n + other.n - 2),
        shared=parts[1] / total if total else 0.5,
    )
