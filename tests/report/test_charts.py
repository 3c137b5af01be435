"""Charts, as SVG and as figures of matplotlib: numbers stand where they should."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from helpers.made_up_results import result

from zoo.report.chart_figure import chart_figure
from zoo.report.chart_svg import MOST_POINTS, chart_svg
from zoo.report.charts import Axis, Chart, Series, extent, number, ticks
from zoo.report.method_charts import rate_chart

LINE = Series("a <b>", [1.0, 10.0, 100.0], [1.0, 2.0, 3.0], lows=[0.5, 1.5, 2.5], highs=[1.5, 2.5, 3.5])


def chart(*series: Series, log: bool = True) -> Chart:
    return Chart("name", "a title & more", Axis("x", log=log), Axis("y"), series, level=1.0)


def test_a_picture_is_well_formed_and_to_scale() -> None:
    root = ElementTree.fromstring(chart_svg(chart(LINE)))
    (line,) = root.iter("{http://www.w3.org/2000/svg}polyline")
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a title & more" in texts and "a <b>" in texts and {"1", "10", "100"} <= set(texts)


def test_what_is_not_a_number_is_left_out() -> None:
    odd = Series("odd", [1.0, 2.0, 3.0], [math.nan, 1.0, math.inf], marks=True, lows=[math.nan] * 3, highs=[1.0] * 3)
    text = chart_svg(chart(odd, log=False))
    assert "nan" not in text and "inf" not in text and text.count("<circle") == 2  # one, and the legend's
    ElementTree.fromstring(chart_svg(chart(log=False)))  # nothing at all


def test_a_long_line_is_thinned() -> None:
    many = Series("", list(range(1, 5001)), [1.0] * 5000)
    (points,) = re.findall(r'<polyline points="([^"]+)"', chart_svg(chart(many)))
    assert len(points.split()) == MOST_POINTS


def test_both_ways_of_drawing_agree() -> None:
    axes = chart_figure(chart(LINE)).axes[0]
    assert axes.get_xscale() == "log" and list(axes.lines[0].get_ydata()) == [1.0, 2.0, 3.0]
    assert axes.get_xlim() == pytest.approx(extent(Axis("x", log=True), [1.0, 100.0]))


@pytest.mark.parametrize(
    ("low", "high", "log", "expected"),
    [
        (0.0, 1.0, False, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-0.13, 0.13, False, [-0.1, 0.0, 0.1]),
        (90.0, 1100.0, True, [100.0, 200.0, 500.0, 1000.0]),
        (0.9, 1.2, True, [0.9, 1.0, 1.1, 1.2]),
    ],
)
def test_ticks_are_round(low: float, high: float, log: bool, expected: list[float]) -> None:
    assert ticks(low, high, log) == pytest.approx(expected)


def test_numbers_are_short() -> None:
    shown = [number(value) for value in (0.5, 20_000, 3e6, 1e15, 0.0002, 0)]
    assert shown == ["0.5", "20 k", "3 M", "1e15", "2e-4", "0"]


def test_what_is_counted_has_no_halves() -> None:
    """Neither of few layers, where ticks would be 0.2 apart, nor of many."""
    for last, expected in ((2, ["1", "2"]), (3, ["1", "2", "3"]), (12, ["5", "10"])):
        layers = Chart(
            "", "", Axis("layer", counted=True), Axis("y", low=0.25, high=0.75), (Series("", [1, last], [0.3, 0.7]),)
        )
        root = ElementTree.fromstring(chart_svg(layers))
        texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
        assert [text for text in texts if text.replace(".", "").isdigit() and float(text) >= 1] == expected


def test_rates_of_one_size_have_one_colour_and_the_plain_block_is_dashed() -> None:
    sizes = [
        (f"{name} {size}", [result(name, 0, 3.0 + size, lr_factor=factor) for factor in (0.5, 1.0)])
        for size in (1, 2)
        for name in ("baseline", "m")
    ]
    chart = rate_chart(sizes, "rates")
    assert chart is not None and [each.dashed for each in chart.series] == [True, False, True, False]
    small, of_small, large, of_large = (each.colour for each in chart.series)
    assert small == of_small != large == of_large
