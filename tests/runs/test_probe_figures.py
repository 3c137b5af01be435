"""Figures of learned values: what is drawn in them, and when."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from zoo.runs.metrics import Records
from zoo.runs.probe_figures import probe_figures
from zoo.runs.probe_panels import few_ticks
from zoo.runs.probe_traces import FIRST, FRAMES, POINTS, SHARE, Pace, Trace
from zoo.runs.spreads import spreads


def drawn(layers: Mapping[int, torch.Tensor], trace: Trace | None = None) -> Figure:
    ((_, figure),) = probe_figures({"gate": layers}, 60, trace or Trace())
    figure.canvas.draw()
    return figure


def trace(steps: range, layers: range) -> Trace:
    made = Trace()
    for step in steps:
        made.add(step, {"gate": {layer: layer + step / 100 for layer in layers}})
    return made


def test_layers_are_told_apart_by_colour_in_their_order() -> None:
    figure = drawn({n: torch.tensor(n + 0.5) for n in range(1, 9)}, trace(range(10, 60, 10), range(1, 9)))
    over_steps, by_layer = figure.axes
    assert [line.get_ydata()[0] for line in over_steps.lines] == [n + 0.1 for n in range(1, 9)]
    assert list(over_steps.lines[0].get_xdata()) == [10, 20, 30, 40, 50]
    (points,) = [each for each in by_layer.collections if len(each.get_offsets()) == 8]
    assert points.get_offsets().tolist() == [[n, n + 0.5] for n in range(1, 9)]
    colours = [tuple(colour) for colour in points.get_facecolors()]
    assert len(set(colours)) == 8 and colours == [line.get_color() for line in over_steps.lines]
    greens = [green for _, green, _, _ in colours]
    assert greens == sorted(greens)  # a scale, so that the order shows


def test_a_short_vector_has_a_line_per_element_against_the_layer() -> None:
    """As the notes draw kernels: weight against layer, a line per earlier token or layer."""
    figure = drawn({1: torch.tensor([1.0]), 2: torch.tensor([2.0, 3.0]), 4: torch.tensor([4.0, 5.0])})
    _, by_layer = figure.axes
    first, second = by_layer.lines
    assert (list(first.get_xdata()), list(first.get_ydata())) == ([1, 2, 4], [1, 2, 4])
    assert (list(second.get_xdata()), list(second.get_ydata())) == ([2, 4], [3, 5])
    assert [text.get_text() for text in by_layer.get_legend().get_texts()] == ["1", "2"]


def test_a_short_vector_is_drawn_over_the_steps_in_its_first_and_last_layer() -> None:
    made = Trace()
    for step in (10, 20):
        made.add(step, {"gate": {n: [n + step, n - step] for n in (1, 2, 3)}})
    over_steps, by_layer = drawn({n: torch.tensor([n + 20.0, n - 20.0]) for n in (1, 2, 3)}, made).axes
    drawn_lines = {(line.get_linestyle(), tuple(line.get_ydata())): line.get_color() for line in over_steps.lines}
    assert drawn_lines.keys() == {("--", (13, 23)), ("--", (-7, -17)), ("-", (11, 21)), ("-", (-9, -19))}
    assert drawn_lines["-", (11, 21)] == drawn_lines["--", (13, 23)] == by_layer.lines[0].get_color()
    assert [text.get_text() for text in over_steps.texts] == ["layer 1, dashed: 3"]


def test_what_depends_on_the_input_is_one_figure_with_its_quantiles() -> None:
    heights = {"mean": 0.5, "q05": 0.1, "q25": 0.4, "q50": 0.5, "q75": 0.6, "q95": 0.9}
    probes = {f"gate_{name}": {n: torch.tensor(height) for n in (1, 2)} for name, height in heights.items()}
    made = Trace()
    made.add(10, {"gate_mean": {1: 0.25, 2: 0.75}})
    ((name, figure),) = probe_figures(probes, 60, made)
    assert name == "gate"
    over_steps, by_layer = figure.axes
    assert [list(line.get_ydata()) for line in over_steps.lines] == [[0.25], [0.75]]
    spans = [tuple(path.vertices[:, 1]) for lines in by_layer.collections[:-1] for path in lines.get_paths()]
    assert spans == [tuple(map(pytest.approx, pair)) for pair in [(0.1, 0.9)] * 2 + [(0.4, 0.6)] * 2]
    assert by_layer.collections[-1].get_offsets().tolist() == [[1, 0.5], [2, 0.5]]


def test_names_that_only_look_like_quantiles_are_drawn_on_their_own() -> None:
    assert not spreads(["gate_mean", "gate_q05"]) and not spreads(["a_q05", "a_q95"]) and not spreads(["a_mean"])
    assert spreads(["x.gate_mean", "x.gate_q95", "x.gate_q05"])["x.gate"].quantiles == ("x.gate_q05", "x.gate_q95")


@pytest.mark.parametrize(("layers", "elements"), [(8, 32), (48, 24), (48, 1)])
def test_labels_do_not_run_into_each_other(layers: int, elements: int) -> None:
    figure = drawn(
        {n: torch.rand(elements) for n in range(1, layers + 1)}, trace(range(0, 10**6, 10**5), range(1, layers + 1))
    )
    for axes in figure.axes[:2]:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        boxes = [box for box in boxes if axes.bbox.x0 - 1 <= (box.x0 + box.x1) / 2 <= axes.bbox.x1 + 1]
        assert all(left.x1 < right.x0 for left, right in zip(boxes, boxes[1:], strict=False))


def test_ticks_are_few_and_begin_with_the_first() -> None:
    assert list(few_ticks(4)) == [0, 1, 2, 3] and list(few_ticks(32)) == list(range(0, 32, 4)) and not few_ticks(0)


def test_a_long_vector_shows_its_mean_and_its_range() -> None:
    figure = drawn({1: torch.linspace(0, 1, 64), 2: torch.linspace(2, 4, 64)}, trace(range(1, 3), range(1, 3)))
    points = figure.axes[1].collections[-1]
    assert points.get_offsets().tolist() == [[1, pytest.approx(0.5)], [2, pytest.approx(3.0)]]


def test_what_is_not_finite_is_not_drawn() -> None:
    assert not list(probe_figures({"gate": {1: torch.tensor(math.nan)}}, 1, Trace()))


# --- over the steps


def test_a_trace_of_a_long_run_stays_small_and_keeps_both_ends() -> None:
    points = trace(range(10_000), range(1, 2)).lines("gate")[1]
    assert len(points) <= POINTS and points[0][0] == 0 and points[-1][0] == 9_999
    assert [step for step, _ in points] == sorted({step for step, _ in points})


def test_a_resumed_run_draws_from_its_beginning(tmp_path: Path) -> None:
    first = Records(tmp_path)
    for step in (2, 4, 6):
        first.probes(step, {"gate": {1: torch.tensor(float(step) if step != 4 else math.nan)}, "k": {1: torch.rand(3)}})
    marks = first.marks()
    first.probes(8, {"gate": {1: torch.tensor(8.0)}})  # lost
    first.close()
    second = Records(tmp_path, marks, 6)
    second.close()
    (two, four, six) = second.tensorboard._trace.lines("gate")[1]
    assert (two, four[0], six) == ((2, 2.0), 4, (6, 6.0)) and math.isnan(four[1])
    assert [len(second.tensorboard._trace.lines("k", element)[1]) for element in range(3)] == [3, 3, 3]
    assert not second.tensorboard._trace.lines("k", 3)


# --- when


def test_drawing_takes_a_small_part_of_the_time() -> None:
    pace = Pace()
    assert not pace.due(500, 1000, FIRST / SHARE - 1) and pace.due(500, 1000, FIRST / SHARE + 1)
    with pace.drawing(500):
        pass
    assert pace.drawn == 500
    assert pace.due(600, 1000, FIRST / SHARE)  # this one was quick


def test_a_run_has_few_figures_however_often_it_validates() -> None:
    pace, steps = Pace(), []
    for step in range(1, 1001):
        if pace.due(step, 1000, 1e6):
            steps.append(step)
            with pace.drawing(step):
                pass
    assert len(steps) == FRAMES - 1 and steps[0] == 100 and steps[-1] == 900  # the end is drawn anyway
    assert not Pace(step=950).due(1000, 1000, 1e6)
