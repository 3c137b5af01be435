"""Figures, by what was drawn in them."""

from __future__ import annotations

import itertools

import pytest
from helpers.made_up_results import result, study
from matplotlib.text import Text

from zoo.bench.store import Result
from zoo.report import figures
from zoo.report.figure_list import report_figures
from zoo.report.findings import Findings

CURVES = [(step, 100 * step, float(step), 5.0 - step / 20) for step in range(1, 31)]


def panels(runs: list[Result]) -> list[figures.Panel]:
    return [figures.Panel(c.method, [c.baseline]) for c in Findings.of(runs).comparisons]


def runs(methods: int, **changed: object) -> list[Result]:
    found = [result("baseline", s, 3.0, training=CURVES) for s in (1, 2)]
    return found + [
        result(f"m{i}", s, 3.0 + i / 1e4, training=CURVES, **changed) for i in range(methods) for s in (1, 2)
    ]


@pytest.mark.parametrize(
    ("against", "last"), [("steps", 30), ("tokens", 3000), ("FLOPs", 3000 * 12.0), ("time (s)", 30.0)]
)
def test_curves_stand_where_they_should(against: str, last: float) -> None:
    drawn = figures.curves(panels(runs(1, flops=12.0)), against, "Curves")
    method = drawn.axes[0].lines[-2]  # the last are the points of validation
    assert list(method.get_xdata())[-1] == pytest.approx(last) and list(method.get_ydata())[-1] == 3.5


def test_other_work_on_the_machine_does_not_stretch_a_curve() -> None:
    slowed = [(step, tokens, seconds + 500.0 * (step > 15), loss) for step, tokens, seconds, loss in CURVES]
    mixed = [result("baseline", 1, 3.0, training=CURVES), result("m", 1, 3.0, training=slowed)]
    plain, _, method, _ = figures.curves(panels(mixed), "time (s)", "Curves").axes[0].lines
    assert list(method.get_xdata()) == pytest.approx(list(plain.get_xdata()))


def test_every_method_has_a_panel_of_its_own() -> None:
    drawn = figures.curves(panels(runs(6)), "steps", "Curves")
    assert [axes.get_title() for axes in drawn.axes if axes.get_visible()] == [f"m{i}" for i in range(6)]


def test_the_legend_of_a_single_panel_is_whole() -> None:
    kinds = [result(f"baseline {kind}", 1, 3.0, match=kind) for kind in figures.MATCHED]
    method = result("m", 1, 3.0, baselines={kind: f"baseline {kind}" for kind in figures.MATCHED})
    *baselines, last = Findings.of([*kinds, method]).arms
    drawn = figures.curves([figures.Panel(last, baselines)], "steps", "Curves")
    (legend,) = drawn.legends
    assert len(legend.get_texts()) == 2 + len(figures.MATCHED)
    box = legend.get_window_extent()
    assert drawn.bbox.x0 <= box.x0 and box.x1 <= drawn.bbox.x1


def test_labels_do_not_lie_on_each_other() -> None:
    """Thirty methods that end within a hundredth of a nat, and one that fails."""
    arms = Findings.of([*runs(30), result("bad", 1, 9.0), result("bad", 2, 9.0)]).arms
    drawn = figures.loss_against_flops(arms, "Loss against FLOPs")
    figures.svg(drawn)
    boxes = [Text.get_window_extent(each) for each in drawn.axes[0].texts]  # without its line
    boxes.sort(key=lambda box: box.y0)
    assert len(boxes) == 31
    assert all(below.y1 <= above.y0 + 1 for below, above in itertools.pairwise(boxes))  # pixels
    assert boxes[0].y0 > 0 and boxes[-1].y1 < drawn.bbox.height


def bars(*values: float) -> list[figures.Bar]:
    return [figures.Bar(f"m{i}", value, value - 0.01, value + 0.01, "open") for i, value in enumerate(values)]


def test_one_that_fails_does_not_press_the_others_together() -> None:
    assert figures.forest(bars(0.1, 0.2), "Differences", "nats").axes[0].get_xscale() == "linear"
    assert figures.forest(bars(0.1, 0.1, 9.0), "Differences", "nats").axes[0].get_xscale() == "symlog"
    axes = figures.forest(bars(0.1, 1.05, 1.1), "κ", "κ", reach=(0.9, 1.2)).axes[0]
    assert axes.get_xscale() == "log" and axes.get_xlim()[0] > 0.85
    marks = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert [(list(mark.get_xdata()), mark.get_marker()) for mark in marks[:2]] == [([0.9], "D"), ([1.05], "o")]


def test_the_best_stands_at_the_top() -> None:
    drawn = dict(report_figures(Findings.of([*study(-0.1), *(result("worse", s, 4.0 + s / 10) for s in (1, 2, 3))])))
    for name in ("overview/differences", "differences/sequential_baseli_none"):
        axes = drawn[name].axes[0]
        assert [label.get_text() for label in axes.get_yticklabels()] == ["m", "worse"]
        assert axes.get_ylim()[0] > axes.get_ylim()[1]
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["better", "worse"]
