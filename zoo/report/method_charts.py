"""The charts of one method's page: learning curves, κ against compute, loss against learning rate, learned values."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from zoo.bench.rate_curves import RateCurve, rate_curves
from zoo.bench.store import Result
from zoo.report.arm_results import ArmResults
from zoo.report.charts import GREY, METHOD, PALETTE, PLAIN, Axis, Chart, Series
from zoo.report.ladder_results import LadderRow
from zoo.report.learned_values import learned_panels
from zoo.report.method_evidence import Climb, Curve
from zoo.runs.probe_panels import Elements
from zoo.system.json_rows import Point

FIRST = 8  # the part of a curve, an eighth, that falls too far to show
LEARNED = "learned-"  # what the names of charts of learned values begin with
MOST_ELEMENTS = 8  # of a learned vector that are drawn
COLOURS = {"none": PLAIN, "parameters": "#b06a08", "flops": "#7a3fa0", "tokens": "#0f8a8a", "time": "#a03070"}


def kappa_chart(climb: Climb) -> Chart:
    """κ of a method against the compute of the rungs, beside the plain block under other seeds."""
    rows = [row for row in climb.ladder.rows if row.role == "other seeds" and row is not climb.row]
    series = [_kappas(row, GREY, dashed=True) for row in rows] + [_kappas(climb.row, METHOD)]
    return Chart(
        name="kappa",
        title=f"κ against compute, {climb.ladder.host} host",
        x=Axis("compute of the plain block (FLOPs)", log=True),
        y=Axis("κ"),
        series=tuple(series),
        level=1.0,
    )


def _kappas(row: LadderRow, colour: str, dashed: bool = False) -> Series:
    at = [each.compute for each in row.rungs if math.isfinite(each.compute.log.value)]
    intervals = [each.log.interval() for each in at]
    return Series(
        label=row.label,
        xs=[math.exp(each.x) for each in at],
        ys=[_exp(each.log.value) for each in at],
        colour=colour,
        marks=True,
        dashed=dashed,
        lows=[_exp(low) for low, _ in intervals],
        highs=[_exp(high) for _, high in intervals],
    )


def _exp(log: float) -> float:
    return math.exp(log) if log < 700 else math.inf


def curve_chart(groups: Sequence[Sequence[Curve]], title: str) -> Chart:
    """Training loss against tokens, mean over seeds with a band from best to worst; the sizes of a ladder in one chart."""
    series = [_loss_series(curve, number == 0) for number, of in enumerate(groups) for curve in of]
    low, high = _window([curve for of in groups for curve in of])
    several = len(groups) > 1
    return Chart(
        name="curves",
        title=title,
        x=Axis("tokens", log=several),
        y=Axis("training loss (nats per token)", low=low, high=high),
        series=tuple(each for each in series if each.xs),
    )


def _loss_series(curve: Curve, named: bool) -> Series:
    columns = list(zip(*(run.training for run in curve.runs if run.training), strict=False))
    losses = [[point[3] for point in points] for points in columns]
    return Series(
        label=curve.label if named else "",
        xs=[points[0][1] for points in columns],
        ys=[statistics.fmean(each) for each in losses],
        colour=COLOURS.get(curve.match, METHOD),
        dashed=curve.match not in ("none", "method"),
        lows=[min(each) for each in losses],
        highs=[max(each) for each in losses],
        band=True,
    )


def _window(curves: Iterable[Curve]) -> tuple[float | None, float | None]:
    """From the best loss to the worst that any arm has after the first eighth."""
    late = [loss for curve in curves for run in curve.runs for loss in _late(run)]
    return (min(late), max(late)) if late else (None, None)


def _late(run: Result) -> Iterator[float]:
    points: Sequence[Point] = run.training
    for _, _, _, loss in itertools.islice(points, len(points) // FIRST, None):
        if math.isfinite(loss):
            yield loss


def rate_chart(tried: Sequence[tuple[str, Sequence[Result]]], title: str) -> Chart | None:
    """Loss against learning rate of every arm that was given a choice; a label for each. None where none was.

    They come in pairs, the plain block and the method of one size: of one colour, the plain block dashed.
    """
    series = []
    for number, (label, runs) in enumerate(tried):
        plain = any(run.match != "method" for run in runs)
        colour = PALETTE[(number // 2) % len(PALETTE)]
        series += [_rates(curve, label, colour, plain) for curve in rate_curves(list(runs))]
    drawn = tuple(each for each in series if len(each.xs) > 1)
    if not drawn:
        return None
    return Chart("rates", title, Axis("learning rate", log=True), Axis("validation loss (nats per token)"), drawn)


def _rates(curve: RateCurve, label: str, colour: str, dashed: bool) -> Series:
    finite = [point for point in curve.points if math.isfinite(point.loss)]
    xs, ys = [point.lr for point in finite], [point.loss for point in finite]
    return Series(label=label, xs=xs, ys=ys, colour=colour, marks=True, dashed=dashed)


def learned_charts(arm: ArmResults) -> list[Chart]:
    """A chart per quantity that the method has learned: against the layer, a line per element, means over the seeds.

    What depends on the input has a bar at every layer: from where to where nine tenths of it lie.
    """
    charts = []
    for panel in learned_panels([arm]):
        series = list(_elements(panel.mean))
        if panel.quantiles and len(series) == 1:
            low, high = panel.quantiles[0], panel.quantiles[-1]
            lows = [min(low.get(layer, ()), default=math.nan) for layer in panel.mean]
            highs = [max(high.get(layer, ()), default=math.nan) for layer in panel.mean]
            series[0] = series[0]._replace(lows=lows, highs=highs)
        title = f"{panel.name} at the end of training"
        charts.append(Chart(LEARNED + panel.name, title, Axis("layer", counted=True), Axis(panel.name), tuple(series)))
    return charts


def _elements(layers: Elements) -> Iterator[Series]:
    """A line per element of a learned value, over the layers."""
    count = max(map(len, layers.values()))
    for element in range(min(count, MOST_ELEMENTS)):
        having = [layer for layer, of in layers.items() if element < len(of)]
        label = f"element {element + 1}" if count > 1 else ""
        ys = [layers[layer][element] for layer in having]
        yield Series(label, having, ys, PALETTE[element % len(PALETTE)], marks=True)
