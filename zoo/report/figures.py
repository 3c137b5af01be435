"""The figures of a report, each drawn from results alone."""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.bench.rate_curves import RateCurve
from zoo.report.arm_results import ArmResults, common_split
from zoo.report.charts import ticks
from zoo.report.verdict_words import colour, word_of
from zoo.system.foreign_text import label
from zoo.system.json_rows import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OTHER = "#666666"
METHOD = "#1f6fb3"
# How the line of such a baseline is drawn.
MATCHED = {"none": "-", "parameters": "--", "flops": ":", "tokens": "-.", "time": (0, (5, 1, 1, 1, 1, 1))}
COLUMNS = 4  # of panels
LINE = 0.14  # inches for a line of small text


def _figure(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(textwrap.fill(label(title, 300), 90), fontsize=10)
    return figure, axes


class Bar(NamedTuple):
    """A row of a forest: a value with its interval."""

    name: str
    value: float
    low: float
    high: float
    verdict: str


def forest(bars: Sequence[Bar], title: str, x_label: str, reach: tuple[float, float] | None = None) -> Figure:
    """Values with their 95 % intervals, the first at the top; a vertical line where nothing is gained or lost.

    That is 0, and differences of which one is far out are logarithmic outside a grey part. With a `reach`, which is that of
    κ, it is 1 on a logarithmic axis from one end to the other; what lies beyond is drawn there, as a diamond.
    """
    figure, axes = _figure(7, 1.4 + 0.2 * len(bars), title)
    low_end, high_end = reach or (-math.inf, math.inf)
    for row, bar in enumerate(bars):
        low, value, high = (min(max(each, low_end), high_end) for each in (bar.low, bar.value, bar.high))
        if not math.isnan(bar.low):
            axes.plot([low, high], [row, row], color=colour(bar.verdict), lw=1.5)
        axes.plot([value], [row], "o" if value == bar.value else "D", color=colour(bar.verdict), ms=5)
    axes.axvline(0 if reach is None else 1, color="black", lw=0.8)
    if reach is not None:
        _multipliers(axes, reach)
    else:
        x_label += _logarithmic_outside(axes, [abs(bar.value) for bar in bars if not math.isnan(bar.value)])
    axes.set_xlabel(x_label)
    axes.set_yticks(range(len(bars)), [label(bar.name) for bar in bars], fontsize=8)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    words = dict.fromkeys(word_of(bar.verdict) for bar in bars)
    shown = [axes.plot([], [], "o", color=colour(word), ms=5, label=word)[0] for word in words]
    if shown:
        axes.legend(handles=shown, fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _multipliers(axes: Axes, reach: tuple[float, float]) -> None:
    """A logarithmic axis with a few numbers that are not powers of ten."""
    axes.set_xscale("log")
    axes.set_xlim(reach[0] / 1.01, reach[1] * 1.01)
    marks = ticks(*reach, log=False)
    axes.set_xticks(marks, [f"{mark:.3g}" for mark in marks], minor=False)
    axes.set_xticks([], minor=True)


def _logarithmic_outside(axes: Axes, sizes: Sequence[float]) -> str:
    """Make the axis logarithmic outside of most values, where one of them would press all others together, and say so."""
    middle = sorted(sizes)[len(sizes) // 2] if sizes else 0.0
    if not sizes or max(sizes) <= 10 * middle:
        return ""
    axes.set_xscale("symlog", linthresh=2 * middle)
    axes.axvspan(-2 * middle, 2 * middle, color="black", alpha=0.04, lw=0)
    return ", logarithmic outside the grey"


class Panel(NamedTuple):
    """A method and the baselines it is drawn with."""

    method: ArmResults
    baselines: Sequence[ArmResults]


def curves(panels: Sequence[Panel], against: str, title: str) -> Figure:
    """A panel per method: training loss, mean over seeds with a band from best to worst, and validation loss as points."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    width, height = max(7.0, 2.7 * columns), 1.4 + 1.9 * rows
    figure = Figure(figsize=(width, height))  # laid out by hand: matplotlib would draw every panel several times for it
    figure.subplots_adjust(0.6 / width, 0.45 / height, 1 - 0.1 / width, 1 - 1.0 / height, wspace=0.07, hspace=0.25)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten().tolist()
    for unused in range(len(panels), len(grid)):
        grid[unused].set_visible(False)
        grid[unused - columns].tick_params(labelbottom=True)  # now the lowest of its column
    for axes, panel in zip(grid, panels, strict=False):
        for arm in (*panel.baselines, panel.method):
            _curve(axes, arm, against)
        axes.set_title(label(panel.method.first.name), fontsize=8)
        axes.tick_params(labelsize=6)
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_ylim(*_window(panels))
    kinds = [kind for kind in MATCHED if any(arm.first.match == kind for panel in panels for arm in panel.baselines)]
    shown = [Line2D([], [], color=METHOD, label="method")]
    shown += [Line2D([], [], color="black", lw=0.8, ls=MATCHED[kind], label=f"baseline: {kind}") for kind in kinds]
    shown.append(Line2D([], [], color=OTHER, ls="", marker="o", ms=3, label="validation"))
    middle = (0.5, 1 - 0.45 / height)
    narrow = {"ncols": len(shown), "fontsize": 7, "columnspacing": 0.8, "handlelength": 1.4, "frameon": False}
    figure.legend(handles=shown, loc="upper center", bbox_to_anchor=middle, **narrow)
    figure.text(0.5, 0.08 / height, against, fontsize=8, ha="center")
    figure.text(0.08 / width, 0.5, "loss (nats per token)", fontsize=8, va="center", rotation=90)
    figure.text(
        0.5, 1 - 0.08 / height, textwrap.fill(label(title, 300), int(12 * width)), fontsize=10, ha="center", va="top"
    )
    return figure


def _curve(axes: Axes, arm: ArmResults, against: str) -> None:
    plain = arm.first.match != "method"
    style: dict[str, Any] = (
        {"color": "black", "lw": 0.8, "ls": MATCHED[arm.first.match]} if plain else {"color": METHOD}
    )
    runs = arm.finished or arm.runs  # one that diverged early would cut the others short
    xs, ys = _over_seeds(arm, [run.training for run in runs], against)
    axes.plot(xs, [sum(y) / len(y) for y in ys], **{"lw": 1.2, **style})
    axes.fill_between(xs, [min(y) for y in ys], [max(y) for y in ys], color=style["color"], alpha=0.15, lw=0)
    xs, ys = _over_seeds(arm, [run.curve for run in runs], against)
    axes.plot(xs, [sum(y) / len(y) for y in ys], "o", ms=3, color=style["color"])


def _window(panels: Sequence[Panel]) -> tuple[float, float]:
    """From the best loss to the worst that any arm has after the first eighth: the first steps fall too far."""
    losses = [
        point[3]
        for panel in panels
        for arm in (*panel.baselines, panel.method)
        for run in arm.finished or arm.runs
        for points in (run.training, run.curve)
        for point in points[len(points) // 8 :]
    ]
    if not losses:
        return 0.0, 1.0
    low, high = min(losses), max(losses)
    margin = 0.05 * (high - low) or 0.1
    return low - margin, high + margin


def _over_seeds(
    arm: ArmResults, curves: Sequence[Sequence[Point]], against: str
) -> tuple[list[float], list[list[float]]]:
    """The x of every point, and the losses of all runs there that have any."""
    columns = list(zip(*filter(None, curves), strict=False))  # where all diverged, some did so later
    x_per_token = {"tokens": 1.0, "FLOPs": arm.first.flops, "time (s)": 1 / arm.speed}.get(against)  # None: count steps
    xs = [points[0][0] if x_per_token is None else points[0][1] * x_per_token for points in columns]
    return xs, [[point[3] for point in points] for points in columns]


def loss_against_flops(arms: Sequence[ArmResults], title: str) -> Figure:
    """The total training FLOPs and the loss of each arm. A line joins the plain models."""
    split = common_split(*arms)
    ends = [
        (arm.spent.flops * arm.spent.trained, arm.spread(split).mean, arm)
        for arm in arms
        if not math.isnan(arm.spread(split).mean)
    ]
    plain = sorted((x, y) for x, y, arm in ends if arm.first.match != "method")
    methods = [(x, y, arm.first.name) for x, y, arm in ends if arm.first.match == "method"]
    height = max(4.2, LINE * len(methods) + 1.2)
    figure, axes = _figure(8, height, title)
    axes.plot([x for x, _ in plain], [y for _, y in plain], "s-", color="black", ms=4, lw=0.8, label="plain blocks")
    axes.plot([x for x, _, _ in methods], [y for _, y, _ in methods], "o", color=METHOD, ms=4, label="methods")
    if ends and max(x for x, _, _ in ends) > 5 * min(x for x, _, _ in ends):  # else its labels run into each other
        axes.set_xscale("log")
    for (x, y, name), height_of_label in zip(methods, _apart([y for _, y, _ in methods], axes, height), strict=True):
        axes.annotate(
            label(name),
            (x, y),
            (1.02, height_of_label),
            fontsize=7,
            va="center",
            textcoords=axes.get_yaxis_transform(),
            arrowprops={"arrowstyle": "-", "lw": 0.3, "color": OTHER},
            annotation_clip=False,
        )
    axes.set_xlabel("training FLOPs")
    axes.set_ylabel(f"loss (nats per token, {split} split)")
    axes.legend(fontsize=7, frameon=False)
    return figure


def _apart(values: Sequence[float], axes: Axes, height: float) -> list[float]:
    """Heights for the labels of these values, in the same order and none over another."""
    low, high = axes.get_ylim()
    step = LINE / (height - 1.0) * (high - low)
    upwards = sorted(range(len(values)), key=values.__getitem__)
    heights = list(values)
    for below, index in itertools.pairwise(upwards):
        heights[index] = max(heights[index], heights[below] + step)
    for rank, index in enumerate(reversed(upwards)):  # what would be above the top is pressed down
        heights[index] = min(heights[index], high - rank * step)
    return heights


def loss_against_rate(curves: Sequence[RateCurve], title: str) -> Figure:
    """The loss of each arm at every learning rate that was tried; a ring where its parabola is lowest."""
    figure, axes = _figure(7, 4.2 + LINE * len(curves) / 3, title)
    colours = itertools.cycle(f"C{index}" for index in range(10))
    for curve in curves:
        plain = curve.match != "method"
        colour = "black" if plain else next(colours)
        finite = [point for point in curve.points if math.isfinite(point.loss)]
        if not finite:
            continue
        name = f"{curve.name} ({curve.match})" if plain else curve.name
        style = MATCHED[curve.match] if plain else "-"
        rates, losses = [point.lr for point in finite], [point.loss for point in finite]
        axes.plot(rates, losses, marker="o", ms=3, lw=1, color=colour, ls=style, label=label(name))
        minimum, own = curve.minimum, finite[0].lr / finite[0].factor
        if minimum.inside:
            axes.plot([own * minimum.factor], [minimum.loss], "o", ms=9, mfc="none", color=colour)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("learning rate")
    axes.set_ylabel("loss (nats per token, validation split)")
    axes.legend(fontsize=7, frameon=False, ncols=1 + len(curves) // 25, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def svg(figure: Figure) -> str:
    """The figure as SVG that a page can hold."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "zoo"}):  # the same figure is the same file
        figure.savefig(out, format="svg", metadata={"Date": None})
    figure.set_layout_engine("none")  # it stays as it was laid out, should it be drawn again
    text = out.getvalue()
    return text[text.index("<svg") :]
