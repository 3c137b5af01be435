"""Many arms against one control (Dunnett 1955), with unequal seeds and variances, by numerical integration."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.statistics.difference import Difference

if TYPE_CHECKING:
    from numpy.typing import NDArray

NORMAL, CHI = 8, 14  # nodes of the two integrals
STEP = 0.01  # loadings are rounded to it: equal ones are computed once
LEVELS = 12  # at which the level of all is computed; in between, logarithms are almost straight lines
LARGEST = 0.98  # a loading of 1 would leave a method no noise of its own


class Question(NamedTuple):
    """A difference, and the control that others may share with it."""

    difference: Difference
    control: Hashable


def adjusted_ps(questions: Sequence[Question]) -> list[float]:
    """p-values for having asked all of these: the chance that any |t| would be as large, were all differences zero.

    The t's of methods with one control are correlated through it: t = (λ z + √(1−λ²) e)/u with z of the control, e of the
    method, and λ² the control's part of the variance. Those of different controls share only u. What is not known asks
    nothing.
    """
    import numpy
    from scipy.special import stdtr

    known = [i for i, each in enumerate(questions) if each.difference.known]
    ps = [math.nan] * len(questions)
    if not known:
        return ps
    t = numpy.array([abs(questions[i].difference.t) for i in known])
    degrees = numpy.array([questions[i].difference.degrees for i in known])
    own = 2 * stdtr(degrees, -t)
    asked = [questions[i] for i in known]
    joint = 1 - _chance_within(t, degrees, _loadings(asked), _pooled(asked)) if len(known) > 1 else own
    for i, p in zip(known, numpy.clip(joint, own, numpy.minimum(1.0, len(known) * own)), strict=True):
        ps[i] = float(p)
    return ps


def critical_level(questions: Sequence[Question], level: float) -> float:
    """The level of one question alone at which all of them together have this level."""
    known = [each for each in questions if each.difference.known]
    if len(known) < 2:
        return level
    import numpy
    from scipy.special import stdtrit

    degrees = float(numpy.median([each.difference.degrees for each in known]))
    groups, pooled = _loadings(known), _pooled(known)
    own = numpy.geomspace(level / len(known) / 1.5, level, LEVELS)
    together = 1 - _chance_within(stdtrit(degrees, 1 - own / 2), numpy.array([degrees]), groups, pooled)
    return float(numpy.exp(numpy.interp(math.log(level), numpy.log(together), numpy.log(own))))


def _loadings(questions: Sequence[Question]) -> list[list[tuple[float, int]]]:
    """For each control, the loadings of the methods compared with it, and how many have each."""
    groups: dict[Hashable, Counter[float]] = {}
    for difference, control in questions:
        loading = min(LARGEST, math.sqrt(min(1.0, max(0.0, difference.shared))))
        groups.setdefault(control, Counter())[round(loading / STEP) * STEP] += 1
    return [sorted(group.items()) for group in groups.values()]


def _pooled(questions: Sequence[Question]) -> bool:
    """Whether one variance serves all, so that all t's share its error."""
    return all(each.difference.pooled for each in questions)


def _chance_within(
    t: NDArray[Any], degrees: NDArray[Any], groups: Sequence[Sequence[tuple[float, int]]], pooled: bool
) -> NDArray[Any]:
    """The chance that all |t| stay below each of these, were all differences zero; degrees are of each t, or of all.

    Of one pooled variance u is the same for all methods; of variances of their own each method has its own.
    """
    import numpy
    from scipy.special import gammaincinv, ndtr

    z, z_weights = _normal_nodes()
    q, q_weights = _unit_nodes()
    # u = √(χ²/ν) at the quantiles q
    u = numpy.sqrt(2 * gammaincinv(degrees[:, None] / 2, q[None, :]) / degrees[:, None])
    reach = (t[:, None] * u)[:, :, None]
    chance = numpy.ones((len(t), len(q)) if pooled else len(t))
    for group in groups:
        inside = numpy.ones((*chance.shape, len(z)))
        for loading, count in group:
            rest = math.sqrt(1 - loading**2)
            shifted = loading * z[None, None, :]
            one = ndtr((shifted + reach) / rest) - ndtr((shifted - reach) / rest)  # t × u × z
            inside *= (one if pooled else numpy.einsum("tuz,u->tz", one, q_weights)) ** count
        chance *= inside @ z_weights
    return numpy.asarray(chance @ q_weights if pooled else chance)


@functools.cache
def _normal_nodes() -> tuple[NDArray[Any], NDArray[Any]]:
    """Nodes and weights for the mean of an even function of a standard normal variable."""
    import numpy

    x, weights = numpy.polynomial.hermite_e.hermegauss(2 * NORMAL)
    return x[NORMAL:], 2 * weights[NORMAL:] / math.sqrt(2 * math.pi)


@functools.cache
def _unit_nodes() -> tuple[NDArray[Any], NDArray[Any]]:
    """Nodes and weights for the mean over (0, 1), denser towards both ends."""
    import numpy

    x, weights = numpy.polynomial.legendre.leggauss(CHI)
    x, weights = (x + 1) / 2, weights / 2
    return x**3 * (10 - 15 * x + 6 * x**2), weights * 30 * x**2 * (1 - x) ** 2
