"""The deviation of runs that differ in their seed alone: pooled over the arms of a rung, moderated over the rungs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LINE = 2  # parameters of the line that the deviations of the rungs are drawn towards


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


UNKNOWN = Noise(math.nan, 0)


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
    σ̃² = (d₀ σ₀² + d σ²)/(d₀ + d). A rung without an estimate of its own takes the line's, and one beyond a single known
    rung takes that one's.
    """
    known = [(x, noise) for x, noise in zip(xs, rungs, strict=True) if noise.degrees > 0]
    if len({x for x, _ in known}) < 2:
        return [noise if noise.degrees > 0 or not known else known[0][1] for noise in rungs]
    line, prior = _trend(known)
    most = sum(noise.degrees for _, noise in known) / LINE
    moderated = []
    for x, noise in zip(xs, rungs, strict=True):
        expected, own = math.exp(line.intercept + line.slope * x), noise.deviation**2 if noise.degrees else 0.0
        share = 1.0 if math.isinf(prior) else prior / (prior + noise.degrees)
        if not noise.degrees:
            share = 1.0
        variance = share * expected + (1 - share) * own
        moderated.append(Noise(math.sqrt(variance), min(prior + noise.degrees, max(most, noise.degrees))))
    return moderated


class _Line(NamedTuple):
    slope: float
    intercept: float


def _trend(known: Sequence[tuple[float, Noise]]) -> tuple[_Line, float]:
    """The line of ln σ² in x, and its degrees of freedom: infinite where the rungs scatter no more than they must."""
    import numpy as np
    from scipy.special import digamma, polygamma

    x = np.array([each for each, _ in known])
    half = np.array([noise.degrees for _, noise in known]) / 2
    logs = np.array([2 * math.log(noise.deviation) for _, noise in known]) - digamma(half) + np.log(half)
    sampling = polygamma(1, half)  # the variance of ln s² that its degrees explain
    slope, intercept = np.polyfit(x, logs, 1, w=1 / np.sqrt(sampling))
    line = _Line(float(slope), float(intercept))
    if len(known) <= LINE:
        return line, math.inf
    residuals = logs - (intercept + slope * x)
    beyond = (float(residuals @ residuals) - float(sampling.sum()) * (1 - LINE / len(known))) / (len(known) - LINE)
    return line, 2 * _inverse_trigamma(beyond) if beyond > 0 else math.inf


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
