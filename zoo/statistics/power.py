"""What seeds could have shown."""

from __future__ import annotations

import functools
import math

from zoo.statistics.difference import Difference

POWER = 0.8


def detectable(difference: Difference, level: float) -> float:
    """The smallest true difference that a test at this level shows four times of five, by Student's noncentral t."""
    if not difference.known:
        return math.nan
    return _noncentral(float(f"{difference.degrees:.3g}"), float(f"{level:.3g}")) * difference.error


@functools.lru_cache(maxsize=4096)
def _noncentral(degrees: float, level: float) -> float:
    """The noncentrality at which |t| is beyond its bound four times of five."""
    from scipy.special import nctdtrinc, stdtrit

    return float(nctdtrinc(degrees, 1 - POWER, float(stdtrit(degrees, 1 - level / 2))))
