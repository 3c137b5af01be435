"""Looking at results before all seeds are there, without more false alarms in the end."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
LEVEL = 0.05
FUTILE = 0.10  # a method whose chance to come out falls below this gets no further seed
GRID = 2001  # points of z in the integrals over what earlier looks left open


@functools.cache
def look_bounds(seeds: tuple[int, ...]) -> tuple[float, ...]:
    """The |z| beyond which a look decides, by O'Brien and Fleming's spending of the level (Lan and DeMets 1983).

    Up to the part i of the last look's seeds, 2 − 2 Φ(Φ⁻¹(1 − α/2)/√i) of the level is spent: 3.20, 2.49 and 2.00 at 3, 5
    and 8 seeds.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri

    whole = float(ndtri(1 - LEVEL / 2))
    z = np.linspace(-8, 8, GRID)
    density = None  # of z at the look before, where that decided nothing
    before, spent, bounds = 0.0, 0.0, list[float]()
    for part in (count / seeds[-1] for count in seeds):
        more = 2 * float(ndtr(-whole / math.sqrt(part))) - spent
        if density is None:
            now = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        else:
            mean, deviation = z * math.sqrt(before / part), math.sqrt(1 - before / part)
            steps = np.exp(-(((z[:, None] - mean) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
            now = np.asarray(np.trapezoid(steps * density, z, axis=1))
        beyond = _tail(z, now)
        bounds.append(float(brentq(functools.partial(_excess, beyond, more), 0.5, 7.9)))
        density, before, spent = np.where(np.abs(z) < bounds[-1], now, 0.0), part, spent + more
    return tuple(bounds)


def _tail(z: Array, density: Array) -> Callable[[float], float]:
    """The chance to lie beyond ± a bound, as a function of it."""
    steps = (density[1:] + density[:-1]) / 2 * np.diff(z)
    below = np.concatenate([[0.0], np.cumsum(steps)])
    return lambda bound: float(np.interp(-bound, z, below) + below[-1] - np.interp(bound, z, below))


def _excess(beyond: Callable[[float], float], wanted: float, bound: float) -> float:
    return beyond(bound) - wanted


def conditional_power(z: float, part: float, bound: float) -> float:
    """The chance that the last look decides, should the effect be what this look, at a part of the seeds, makes it."""
    from scipy.special import ndtr

    if part >= 1:
        return float(abs(z) > bound)
    mean, deviation = z / math.sqrt(part), math.sqrt(1 - part)
    return float(ndtr((mean - bound) / deviation) + ndtr((-bound - mean) / deviation))
