"""The loss of an arm against its learning rate: where it is lowest, and whether a grid of rates has that inside.

A curve is of the tuning seed, and of further ones where rates tie. Near its minimum it is a parabola in log₂ of the factor of
the rate; if the minimum is not inside the grid, the grid is widened, for every arm alike.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from zoo.bench.arms import Arm, Job
from zoo.bench.freshness import outdated
from zoo.bench.store import TUNING_SEED, Result, by_arm, tuning_losses
from zoo.bench.suite import Suite


class RatePoint(NamedTuple):
    """An arm at one learning rate."""

    factor: float  # of the arm's own rate
    lr: float
    loss: float  # on the validation split, the mean of its tuning seeds; infinite where it diverged
    seeds: int = 1


class Minimum(NamedTuple):
    """Where a curve is lowest."""

    factor: float  # by a parabola through the best point and its neighbours, else of the best point
    loss: float
    inside: bool  # of the range of factors that were tried
    above: bool  # if it is not inside: beyond the largest factor, not below the smallest


class RateCurve(NamedTuple):
    """The losses of an arm at every rate that was tried, from the smallest factor to the largest."""

    arm: str
    name: str
    match: str
    host: str
    seed: int  # the tuning seed, or in older stores the one on which rates were tried
    points: tuple[RatePoint, ...]

    @property
    def minimum(self) -> Minimum:
        """The lowest point of the parabola, in log₂ of the factor, through the best point and those beside it."""
        index = min(range(len(self.points)), key=lambda i: self.points[i].loss)
        best = self.points[index]
        if math.isinf(best.loss):  # it diverged at every rate: a smaller one may do
            return Minimum(self.points[0].factor, math.inf, inside=False, above=False)
        start = min(max(index - 1, 0), max(0, len(self.points) - 3))
        vertex = parabola_minimum(self.points[start : start + 3])
        lowest, highest = self.points[0].factor, self.points[-1].factor
        if vertex is not None and lowest < vertex[0] < highest:
            return Minimum(*vertex, inside=True, above=False)
        inside = 0 < index < len(self.points) - 1
        return Minimum(best.factor, best.loss, inside, above=index > 0 and not inside)


def parabola_minimum(points: Sequence[RatePoint]) -> tuple[float, float] | None:
    """Factor and loss where the parabola through three points in log₂ of the factor is lowest; None: it has no such place."""
    if len(points) < 3 or not all(math.isfinite(point.loss) for point in points):
        return None
    (x0, y0), (x1, y1), (x2, y2) = ((math.log2(point.factor), point.loss) for point in points)
    first, second = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    curvature = (second - first) / (x2 - x0)
    if not curvature > 0:
        return None
    lowest = (x0 + x1) / 2 - first / (2 * curvature)
    loss = y0 + first * (lowest - x0) + curvature * (lowest - x0) * (lowest - x1)
    return 2.0**lowest, loss


def rate_curve(results: Sequence[Result]) -> RateCurve | None:
    """The curve of one arm, from its results: the mean over its tuning seeds.

    In older stores, which have no tuning seed, it is that of the seed that was tried at most rates, the first of several.
    """
    seeds: dict[int, list[Result]] = {}
    for result in results:
        seeds.setdefault(result.seed, []).append(result)
    if not seeds:
        return None
    seed = TUNING_SEED if TUNING_SEED in seeds else min(seeds, key=lambda each: (-len(seeds[each]), each))
    losses = tuning_losses(results if seed == TUNING_SEED else seeds[seed])
    rates = {result.lr_factor: result.lr for result in results}
    points = [RatePoint(factor, rates[factor], statistics.fmean(of), len(of)) for factor, of in sorted(losses.items())]
    first = results[0]
    return RateCurve(first.arm, first.name, first.match, first.host, seed, tuple(points))


def rate_curves(results: Iterable[Result], at_least: int = 2) -> list[RateCurve]:
    """The curves of all arms that were tried at several rates, in the order of the results."""
    curves = map(rate_curve, by_arm(results).values())
    return [curve for curve in curves if curve is not None and len(curve.points) >= at_least]


def widened(arms: Sequence[Arm], suite: Suite, results: Iterable[Result]) -> Suite:
    """The suite with the rates that its arms are to be tried at, as far as the results tell by now.

    As long as the minimum of an arm is not inside the grid, the grid gets another rate on that side, for all arms; at most
    `suite.widenings` times. What it says depends on the results alone, so an interrupted bench goes on with the same grid.
    """
    of_arm = by_arm(results)
    for _ in range(suite.widenings):
        minima = [curve.minimum for arm in arms if (curve := _on_grid(arm, suite, of_arm.get(arm.id, ())))]
        beyond = [minimum for minimum in minima if not minimum.inside]
        if not beyond:
            break
        rates = sorted(suite.lrs)
        below = [rates[0] ** 2 / rates[1]] if any(not minimum.above for minimum in beyond) else []
        above = [rates[-1] ** 2 / rates[-2]] if any(minimum.above for minimum in beyond) else []
        suite = replace(suite, lrs=(*below, *rates, *above), widenings=suite.widenings - 1)
    return suite


def outside(arms: Sequence[Arm], suite: Suite, results: Iterable[Result]) -> list[Arm]:
    """The arms whose minimum is not inside the grid."""
    of_arm = by_arm(results)
    curves = {arm.id: _on_grid(arm, suite, of_arm.get(arm.id, ())) for arm in arms}
    return [arm for arm in arms if (curve := curves[arm.id]) and not curve.minimum.inside]


def _on_grid(arm: Arm, suite: Suite, results: Sequence[Result]) -> RateCurve | None:
    """The arm's curve at the rates of the grid; None while one of them is missing."""
    fresh = [r for r in results if r.lr_factor in suite.lrs and not outdated(r, Job(arm, r.seed, r.lr_factor))]
    curve = rate_curve(fresh)
    return curve if curve and len(curve.points) == len(suite.lrs) else None
