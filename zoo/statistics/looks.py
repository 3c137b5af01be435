"""Planned looks: testing again as seeds are added, with the chance of a false verdict kept at 5 % over all looks."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEDS = (3, 5, 8)  # of an arm, at each look
LEVEL = 0.05
SAME_LEVEL = 0.10  # of both sides together, where two arms are shown to be the same: two one-sided tests at 5 %
FUTILE = 0.10  # a conditional power below this ends an arm
NODES = 240
SMALLEST = 1e-300  # p: half of it still has a normal quantile


class Look(NamedTuple):
    """One planned look."""

    seeds: int
    information: float  # of what the last look has
    bound: float  # |z| beyond which there is a difference

    @property
    def level(self) -> float:
        """The bound as a two-sided level."""
        from scipy.special import ndtr

        return 2 * float(ndtr(-self.bound))


class Levels(NamedTuple):
    """The two-sided levels of a verdict: smaller at an early look, as all looks together spend what a single test has."""

    different: float = LEVEL
    same: float = SAME_LEVEL


@functools.cache
def planned_looks(seeds: tuple[int, ...] = SEEDS, level: float = LEVEL) -> tuple[Look, ...]:
    """The looks at these numbers of seeds, bounded as by O'Brien and Fleming.

    Lan and DeMets (1983): up to the information i, α(i) = 2 − 2 Φ(Φ⁻¹(1 − α/2)/√i) of the level has been spent. At 3, 5
    and 8 seeds that gives |z| > 3.20, 2.49, 2.00.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri

    information = [count / seeds[-1] for count in seeds]
    z = float(ndtri(1 - level / 2))
    spent = [2 * float(ndtr(-z / math.sqrt(i))) for i in information]
    bounds: list[float] = []
    for k in range(len(seeds)):
        more = spent[k] - (spent[k - 1] if k else 0.0)

        def excess(bound: float, more: float = more) -> float:
            return _reached(information, [(0.0, b) for b in (*bounds, bound)])[-1] - more

        bounds.append(float(brentq(excess, 0.5, 8.0, xtol=1e-7)))
    return tuple(Look(n, i, b) for n, i, b in zip(seeds, information, bounds, strict=True))


def _reached(information: list[float], regions: list[tuple[float, float]]) -> list[float]:
    """The chance, without any difference, to be beyond the upper end of each region at its look, and in all before.

    A region is (low, high): the looks go on while low < |z| < high.
    """
    import numpy
    from scipy.special import ndtr

    nodes, density = numpy.zeros(1), numpy.ones(1)  # of z at the look before, as far as it went on
    before, beyond = 0.0, []
    for i, (low, high) in zip(information, regions, strict=False):
        mean, deviation = nodes * math.sqrt(before / i), math.sqrt((i - before) / i)
        beyond.append(float(density @ (ndtr((-high - mean) / deviation) + ndtr((mean - high) / deviation))))
        z, weights = _nodes(low, high)
        steps = numpy.exp(-0.5 * ((z[:, None] - mean[None, :]) / deviation) ** 2) / deviation / math.sqrt(2 * math.pi)
        nodes, density, before = z, weights * (steps @ density), i
    return beyond


def _nodes(low: float, high: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Nodes and weights for the integral over low < |z| < high."""
    import numpy

    x, weights = numpy.polynomial.legendre.leggauss(NODES // 2)
    x, weights = low + (high - low) * (x + 1) / 2, weights * (high - low) / 2
    return numpy.concatenate([-x, x]), numpy.concatenate([weights, weights])


def conditional_power(z: float, information: float, bound: float) -> float:
    """The chance to end beyond the last look's bound, either way, if the difference is as large as it looks now."""
    from scipy.special import ndtr

    if information >= 1:
        return float(abs(z) > bound)
    mean, deviation = z / math.sqrt(information), math.sqrt(1 - information)
    return float(ndtr((mean - bound) / deviation) + ndtr((-mean - bound) / deviation))


def futility_bound(look: Look, last: Look) -> float:
    """The |z| at a look below which the conditional power is too small to go on."""
    from scipy.optimize import brentq

    if conditional_power(0.0, look.information, last.bound) >= FUTILE or look.information >= 1:
        return 0.0
    return float(
        brentq(lambda z: conditional_power(z, look.information, last.bound) - FUTILE, 0.0, look.bound, xtol=1e-7)
    )


def chances_to_go_on(looks: tuple[Look, ...]) -> list[float]:
    """The chance to be still undecided after each look but the last, where there is no difference."""
    regions = [(futility_bound(look, looks[-1]), look.bound) for look in looks]
    information = [look.information for look in looks]
    chances = []
    for k in range(1, len(looks)):  # beyond a bound of zero: everything that gets so far
        chances.append(_reached(information[: k + 1], [*regions[:k], (0.0, 0.0)])[-1])
    return chances


def levels_at(seeds: int, looks: tuple[int, ...]) -> Levels:
    """The levels of a verdict on so many seeds under looks at these numbers of seeds; of a single test without any."""
    if not looks:
        return Levels()
    return Levels(*(look_at(seeds, planned_looks(looks, level)).level for level in Levels()))


def normal_score(p: float) -> float:
    """The |z| whose two-sided p this is: what a t says, on the scale of the looks' bounds."""
    from scipy.special import ndtri

    return -float(ndtri(max(p, SMALLEST) / 2))


def look_at(seeds: int, looks: tuple[Look, ...]) -> Look:
    """The look that so many seeds have come to; before the first one, the first."""
    return [look for look in looks if look.seeds <= seeds or look is looks[0]][-1]
