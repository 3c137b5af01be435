"""The deviation of runs that differ in their seed alone: pooled over the arms of a rung, moderated over the rungs.

An arm whose runs scatter far more than those of the others is judged by its own deviation: in the pool it would widen the
intervals of all.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

Name = TypeVar("Name", bound=Hashable)
LINE = 2  # parameters of the line that the deviations of the rungs are drawn towards
WIDE = 0.01  # the chance that at a rung of arms with one deviation any is left out of the pool


class Noise(NamedTuple):
    """A deviation, and its degrees of freedom."""

    deviation: float
    degrees: float

    def of_mean(self, n: int) -> float:
        """The standard error of the mean of n runs."""
        return self.deviation / math.sqrt(n)

    def of_difference(self, n: int, m: int) -> float:
        """The standard error of the difference of two means, over n and m runs."""
        return self.deviation * math.sqrt(1 / n + 1 / m)

    def beside(self, n: int, other: Noise, m: int) -> Noise:
        """The standard error of the difference of two means, over n runs with this noise and m with another one.

        Its degrees of freedom are those of Welch and Satterthwaite.
        """
        if other == self:
            return Noise(self.of_difference(n, m), self.degrees)
        parts = self.of_mean(n) ** 2, other.of_mean(m) ** 2
        doubt = parts[0] ** 2 / self.degrees + parts[1] ** 2 / other.degrees
        return Noise(math.sqrt(sum(parts)), sum(parts) ** 2 / doubt)


UNKNOWN = Noise(math.nan, 0)


def wide_groups(groups: Sequence[Sequence[float]]) -> list[int]:
    """Which groups of losses scatter more than the others do together, the widest first.

    One at a time: the group of the smallest chance in an F test against all that are left, as long as that chance, times
    the number of groups, is below `WIDE`.
    """
    from scipy.stats import f

    left = {index: noise for index, group in enumerate(groups) if (noise := pooled_noise([group])).degrees}
    wide: list[int] = []
    while len(left) > 2:
        squares = math.fsum(noise.degrees * noise.deviation**2 for noise in left.values())
        degrees = sum(noise.degrees for noise in left.values())
        chances = {}
        for index, noise in left.items():
            rest = (squares - noise.degrees * noise.deviation**2) / (degrees - noise.degrees)
            chances[index] = float(f.sf(noise.deviation**2 / rest, noise.degrees, degrees - noise.degrees))
        widest = min(chances, key=chances.__getitem__)
        if chances[widest] * len(chances) >= WIDE:
            break
        wide.append(widest)
        del left[widest]
    return wide


def wide_arms(rungs: Sequence[Mapping[Name, Sequence[float]]]) -> list[Name]:
    """The arms that scatter more than the others at any rung, by name.

    They count as such at all rungs: where three runs happen to lie close together, the others' noise would be far too small.
    """
    names: dict[Name, None] = {}
    for losses in rungs:
        of_rung = list(losses)
        names |= dict.fromkeys(of_rung[index] for index in wide_groups(list(losses.values())))
    return list(names)


def wider_than(group: Sequence[float], pool: Noise) -> tuple[float, float]:
    """The deviation of a group of losses over a pooled one, and the chance of that or more where one noise holds for both."""
    from scipy.stats import f

    own = pooled_noise([group])
    if not own.degrees or not pool.degrees:
        return math.nan, 1.0
    ratio = own.deviation / pool.deviation
    return ratio, float(f.sf(ratio**2, own.degrees, min(pool.degrees, 1e6)))


def pooled_noise(groups: Iterable[Sequence[float]]) -> Noise:
    """σ̂² = ΣΣ(y − ȳ)² / Σ(n − 1) over groups of losses, those of one arm each."""
    squares, degrees = 0.0, 0
    for group in groups:
        if len(group) > 1:
            mean = statistics.fmean(group)
            squares += math.fsum((loss - mean) ** 2 for loss in group)
            degrees += len(group) - 1
    return Noise(math.sqrt(squares / degrees), degrees) if degrees and squares else UNKNOWN


def noise_by_rung(xs: Sequence[float], rungs: Sequence[Noise]) -> list[Noise]:
    """The noise of each rung, moderated: its own and that of a line of ln σ² in x, each by its degrees of freedom.

    A rung has few runs, and noise falls smoothly with compute. As in Smyth (2004) with a trend: the line's degrees of
    freedom d₀ follow from how far the rungs scatter about it beyond what their own degrees explain; then
    σ̃² = (d₀ σ₀² + d σ²)/(d₀ + d). That has d₀ + d degrees as far as the line is known, which is itself an estimate: one
    through two rungs says no more of each than its own runs do. A rung without an estimate of its own takes the line's,
    and one beyond a single known rung takes that one's.
    """
    known = [(x, noise) for x, noise in zip(xs, rungs, strict=True) if noise.degrees > 0]
    if len({x for x, _ in known}) < 2:
        return [noise if noise.degrees > 0 or not known else known[0][1] for noise in rungs]
    line, prior = _trend(known)
    moderated = []
    for x, noise in zip(xs, rungs, strict=True):
        line_degrees, own = line.degrees(x), noise.deviation**2 if noise.degrees else 0.0
        expected = math.exp(line.at(x) + _log_bias(line_degrees))
        share = 1.0 if math.isinf(prior) else prior / (prior + noise.degrees)
        if not noise.degrees:
            share = 1.0
        variance = share * expected + (1 - share) * own
        doubt = 1 / (prior + noise.degrees) + share**2 / line_degrees
        moderated.append(Noise(math.sqrt(variance), 1 / doubt))
    return moderated


class _Line(NamedTuple):
    """ln σ² against x, by weighted least squares."""

    slope: float
    intercept: float
    covariance: tuple[tuple[float, float], tuple[float, float]]  # of slope and intercept

    def at(self, x: float) -> float:
        """ln σ² at x."""
        return self.intercept + self.slope * x

    def degrees(self, x: float) -> float:
        """The degrees of freedom of a variance whose logarithm is known as well as the line is at x."""
        (slope, both), (_, intercept) = self.covariance
        return 2 * _inverse_trigamma(slope * x * x + 2 * both * x + intercept)


def _trend(known: Sequence[tuple[float, Noise]]) -> tuple[_Line, float]:
    """The line of ln σ² in x, and its degrees of freedom: infinite where the rungs scatter no more than they must."""
    import numpy as np
    from scipy.special import polygamma

    x = np.array([each for each, _ in known])
    half = np.array([noise.degrees for _, noise in known]) / 2
    logs = np.array([2 * math.log(noise.deviation) - _log_bias(noise.degrees) for _, noise in known])
    sampling = polygamma(1, half)  # the variance of ln s² that its degrees explain
    design = np.stack([x, np.ones_like(x)], axis=1)
    covariance = np.linalg.inv(design.T @ (design / sampling[:, None]))
    slope, intercept = covariance @ design.T @ (logs / sampling)
    (a, b), (_, c) = covariance.tolist()
    line = _Line(float(slope), float(intercept), ((a, b), (b, c)))
    if len(known) <= LINE:
        return line, math.inf
    residuals = logs - (intercept + slope * x)
    beyond = (float(residuals @ residuals) - float(sampling.sum()) * (1 - LINE / len(known))) / (len(known) - LINE)
    return line, 2 * _inverse_trigamma(beyond) if beyond > 0 else math.inf


def _log_bias(degrees: float) -> float:
    """By how much ln s² is below ln σ² on average."""
    from scipy.special import digamma

    return float(digamma(degrees / 2)) - math.log(degrees / 2)


def _inverse_trigamma(value: float) -> float:
    """The y whose trigamma is the value, by Newton's method on 1/trigamma, which is convex."""
    from scipy.special import polygamma

    y = 0.5 + 1 / value
    for _ in range(50):
        first = float(polygamma(1, y))
        change = first * (1 - first / value) / float(polygamma(2, y))
        y += change
        if abs(change) < 1e-10 * y:
            break
    return y
