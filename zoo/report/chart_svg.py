"""A chart as SVG, by hand: a report has hundreds of them, each in a few kilobytes and milliseconds."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zoo.report.charts import Chart, Series, extent, number, ticks, x_values, y_values
from zoo.system.foreign_text import one_line

WIDTH, HEIGHT = 460, 290
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 26, 38  # around the frame
LINE = 14  # pixels of a line of the legend
CHARACTER = 6.2  # pixels of a character, about
MOST_POINTS = 120  # of a line: more cannot be told apart
LONGEST = 44  # characters of a label
STYLE = 'font-family="system-ui,sans-serif" font-size="11" fill="#333"'  # attributes, so that a file of its own looks the same


class _Scale(NamedTuple):
    """From values to pixels."""

    low: float
    high: float
    first: float  # the pixel of `low`
    last: float
    log: bool

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else -1.0
        else:
            share = (value - self.low) / (self.high - self.low)
        share = max(-3.0, min(4.0, share))  # what is far outside is cut off, and its number must stay short
        return self.first + share * (self.last - self.first)


def chart_svg(chart: Chart) -> str:
    """The chart as an SVG element, for a page or for a file of its own."""
    labelled = [each for each in chart.series if each.label]
    legend = _legend_lines(labelled)
    height = HEIGHT + LINE * len(legend)
    x_low, x_high = extent(chart.x, x_values(chart))
    y_low, y_high = extent(chart.y, y_values(chart))
    x = _Scale(x_low, x_high, LEFT, WIDTH - RIGHT, chart.x.log)
    y = _Scale(y_low, y_high, HEIGHT - BOTTOM, TOP, chart.y.log)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"'
        f' aria-label="{_text(chart.title)}" {STYLE}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{WIDTH / 2:g}" y="15" text-anchor="middle" font-size="12">{_text(chart.title, 72)}</text>',
        *_axes(chart, x, y),
        *_content(chart, x, y),
        *_legend(legend),
        "</svg>",
    ]
    return "".join(parts)


def _text(text: str, longest: int = 200) -> str:
    """Anyone's text as part of the picture."""
    return html.escape(one_line(text, longest))


def _axes(chart: Chart, x: _Scale, y: _Scale) -> Iterator[str]:
    """The frame, ticks with their numbers, and labels."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value in ticks(y.low, y.high, y.log):
        at = y(value)
        yield f'<path d="M{LEFT} {at:.1f}H{right}" stroke="#e6e6e6"/>'
        yield f'<text x="{LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{number(value)}</text>'
    marks = ticks(x.low, x.high, x.log)
    for value in [mark for mark in marks if abs(mark - round(mark)) < 1e-9] if chart.x.counted else marks:
        at = x(value)
        yield f'<path d="M{at:.1f} {bottom}v4" stroke="#666"/>'
        yield f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{number(value)}</text>'
    yield f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#666"/>'
    yield f'<text x="{(LEFT + right) / 2:g}" y="{bottom + 31}" text-anchor="middle">{_text(chart.x.label, 70)}</text>'
    middle = (TOP + bottom) / 2
    yield (
        f'<text transform="translate(11 {middle:g}) rotate(-90)" text-anchor="middle">{_text(chart.y.label, 50)}</text>'
    )


def _content(chart: Chart, x: _Scale, y: _Scale) -> Iterator[str]:
    """Level and series, cut off at the frame."""
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    yield f'<svg x="{LEFT}" y="{TOP}" width="{width}" height="{height}" viewBox="{LEFT} {TOP} {width} {height}">'
    if chart.level is not None:
        yield f'<path d="M{LEFT} {y(chart.level):.1f}H{WIDTH - RIGHT}" stroke="#000" stroke-width="0.8"/>'
    for each in chart.series:
        yield from _series(each, x, y)
    yield "</svg>"


def _series(series: Series, x: _Scale, y: _Scale) -> Iterator[str]:
    """One series: its reach, its line, its marks."""
    rows = _thinned([i for i, v in enumerate(series.ys) if math.isfinite(v) and math.isfinite(series.xs[i])])
    points = [(x(series.xs[i]), y(series.ys[i])) for i in rows]
    reach = [(x(series.xs[i]), y(series.lows[i]), y(series.highs[i])) for i in rows if _reaches(series, i)]
    if series.band and reach:
        up = " ".join(f"{at:.1f},{high:.1f}" for at, _, high in reach)
        down = " ".join(f"{at:.1f},{low:.1f}" for at, low, _ in reversed(reach))
        yield f'<polygon points="{up} {down}" fill="{series.colour}" fill-opacity="0.15"/>'
    elif reach:
        bars = "".join(f"M{at:.1f} {low:.1f}V{high:.1f}" for at, low, high in reach)
        yield f'<path d="{bars}" stroke="{series.colour}" stroke-width="1.4"/>'
    if series.line and len(points) > 1:
        dashes = ' stroke-dasharray="4 3"' if series.dashed else ""
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        yield f'<polyline points="{path}" fill="none" stroke="{series.colour}" stroke-width="1.4"{dashes}/>'
    if series.marks or (series.line and len(points) == 1):
        for a, b in points:
            yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{series.colour}"/>'


def _reaches(series: Series, i: int) -> bool:
    return i < len(series.lows) and math.isfinite(series.lows[i]) and math.isfinite(series.highs[i])


def _thinned(rows: Sequence[int]) -> list[int]:
    """At most so many of the points, the first and the last among them."""
    if len(rows) <= MOST_POINTS:
        return list(rows)
    step = (len(rows) - 1) / (MOST_POINTS - 1)
    return [rows[round(i * step)] for i in range(MOST_POINTS)]


def _legend_lines(series: Sequence[Series]) -> list[list[Series]]:
    """The entries of the legend, as many to a line as there is room for."""
    lines: list[list[Series]] = []
    room = 0.0
    for each in series:
        width = _entry_width(each)
        if not lines or room + width > WIDTH - LEFT - RIGHT:
            lines.append([])
            room = 0.0
        lines[-1].append(each)
        room += width
    return lines


def _entry_width(series: Series) -> float:
    return 34 + CHARACTER * len(one_line(series.label, LONGEST))


def _legend(lines: Sequence[Sequence[Series]]) -> Iterator[str]:
    for row, entries in enumerate(lines):
        at, middle = float(LEFT), HEIGHT + LINE * row + 3
        for each in entries:
            dashes = ' stroke-dasharray="4 3"' if each.dashed else ""
            if each.line:
                yield f'<path d="M{at:.0f} {middle}h18" stroke="{each.colour}" stroke-width="2"{dashes}/>'
            if each.marks:
                yield f'<circle cx="{at + 9:.0f}" cy="{middle}" r="3" fill="{each.colour}"/>'
            yield f'<text x="{at + 23:.0f}" y="{middle + 4}">{_text(each.label, LONGEST)}</text>'
            at += _entry_width(each)
