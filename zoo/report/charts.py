"""A chart as data: what it shows, and nothing of how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

METHOD = "#1f6fb3"
PLAIN = "#222222"
GREY = "#888888"
PALETTE = ("#1f6fb3", "#b3341f", "#2a7f3f", "#b06a08", "#7a3fa0", "#0f8a8a", "#a03070", "#6b6b2a")


class Axis(NamedTuple):
    """An axis: its label, whether it is logarithmic, and from where to where it goes if not over all points.

    Of what is counted, such as layers, no part of one has a number.
    """

    label: str
    log: bool = False
    low: float | None = None
    high: float | None = None
    counted: bool = False


class Series(NamedTuple):
    """Points that belong together, with a reach to both sides of each if there is one."""

    label: str  # in the legend; empty: not there
    xs: Sequence[float]
    ys: Sequence[float]
    colour: str = METHOD
    line: bool = True
    marks: bool = False  # a dot at every point
    dashed: bool = False
    lows: Sequence[float] = ()  # the lower ends of intervals
    highs: Sequence[float] = ()
    band: bool = False  # the reach is an area, not a bar at every point


class Chart(NamedTuple):
    """Some series over two axes."""

    name: str  # of its file, without an ending
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    level: float | None = None  # a line across: where nothing is gained or lost


def extent(axis: Axis, values: Iterable[float]) -> tuple[float, float]:
    """From where to where an axis goes, with some room at both ends."""
    shown = [value for value in values if math.isfinite(value) and (value > 0 or not axis.log)]
    low = axis.low if axis.low is not None else min(shown, default=1.0)
    high = axis.high if axis.high is not None else max(shown, default=2.0)
    if axis.log:
        room = (high / low) ** 0.05 if high > low else 1.1
        return low / room, high * room
    room = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    return low - room, high + room


def x_values(chart: Chart) -> list[float]:
    """Every x of a chart."""
    return [x for each in chart.series for x in each.xs]


def y_values(chart: Chart) -> list[float]:
    """Every y of a chart, with the ends of intervals and the level."""
    ends = [y for each in chart.series for values in (each.ys, each.lows, each.highs) for y in values]
    return ends if chart.level is None else [*ends, chart.level]


def ticks(low: float, high: float, log: bool) -> list[float]:
    """Some round numbers between two ends."""
    if log:
        steps = (1.0,) if high / low > 300 else (1.0, 3.0) if high / low > 20 else (1.0, 2.0, 5.0)
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        inside = [mark for mark in marks if low <= mark <= high]
        if len(inside) > 1:
            return inside
    if not 0 < high - low < math.inf:
        return []
    step = _round_step((high - low) / 5)
    first_mark, last_mark = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [step * count for count in range(first_mark, last_mark + 1)]


def _round_step(step: float) -> float:
    """1, 2 or 5 times a power of ten, not smaller than this."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(each * power for each in (1.0, 2.0, 5.0, 10.0) if each * power >= step * 0.999)


def number(value: float) -> str:
    """A number at a tick: 0.5, 20 k, 3 M, 1e15."""
    size = abs(value)
    if size >= 1e12 or 0 < size < 1e-3:
        return f"{value:.0e}".replace("e+", "e").replace("e-0", "e-")
    for power, letter in ((9, " G"), (6, " M"), (3, " k")):
        if size >= 10**power:
            return f"{value / 10**power:.4g}{letter}"
    return f"{value:.4g}"
