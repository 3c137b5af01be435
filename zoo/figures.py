"""The figures of a report, each drawn from results alone."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zoo.store import Point
from zoo.verdict import ArmResults, Comparison, common_split

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"better": "#2a7f3f", "worse": "#b3341f", "leaks": "#7a3fa0", "diverged": "#7a3fa0"}
OTHER = "#666666"


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def forest(comparisons: Sequence[Comparison], title: str) -> Figure:
    """Differences with their 95 % intervals; left of zero the method is better."""
    figure, axes = _figure(7, 1.2 + 0.28 * len(comparisons))
    for row, comparison in enumerate(reversed(comparisons)):
        difference, colour = comparison.difference, COLOURS.get(comparison.verdict, OTHER)
        if difference.low == difference.low:
            axes.plot([difference.low, difference.high], [row, row], color=colour, lw=1.5)
        axes.plot([difference.mean], [row], "o", color=colour, ms=5)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(comparisons)), [c.name for c in reversed(comparisons)], fontsize=8)
    axes.set_xlabel("loss of the method − loss of the baseline (nats a token)")
    axes.set_title(title, fontsize=10)
    return figure


AXES = {"steps": 0, "tokens": 1, "time (s)": 2}


def curves(arms: Sequence[ArmResults], labels: Sequence[str], against: str, title: str) -> Figure:
    """Training loss, mean over seeds with a band from the best to the worst, and validation loss as points."""
    figure, axes = _figure(7, 4.2)
    for arm, label in zip(arms, labels, strict=True):
        plain = arm.first.match != "method"
        style: dict[str, Any] = {"color": "black", "ls": "--"} if plain else {}
        runs = arm.finished or arm.runs  # one that diverged early would cut the others short
        xs, ys = _over_seeds([run.training for run in runs], against, arm.first.flops)
        (line,) = axes.plot(xs, [sum(y) / len(y) for y in ys], lw=1.0, label=label, **style)
        axes.fill_between(xs, [min(y) for y in ys], [max(y) for y in ys], color=line.get_color(), alpha=0.15, lw=0)
        xs, ys = _over_seeds([run.curve for run in runs], against, arm.first.flops)
        axes.plot(xs, [sum(y) / len(y) for y in ys], "o", ms=4, color=line.get_color())
    axes.set_xlabel(against)
    axes.set_ylabel("loss (nats a token): training, ● validation")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=6, ncols=2)
    return figure


def _over_seeds(runs: Sequence[Sequence[Point]], against: str, flops: float) -> tuple[list[float], list[list[float]]]:
    """Where the points stand, and their losses, of all runs that have any."""
    runs = [run for run in runs if run]
    columns = list(zip(*runs, strict=False))  # where all diverged, some did so later
    if against == "FLOPs":
        xs = [points[0][1] * flops for points in columns]
    else:
        xs = [sum(point[AXES[against]] for point in points) / len(points) for points in columns]
    return xs, [[point[3] for point in points] for points in columns]


def loss_against_flops(arms: Sequence[ArmResults], title: str) -> Figure:
    """Where each arm ended: total training FLOPs and loss."""
    figure, axes = _figure(7, 4.2)
    split = common_split(*arms)
    for arm in arms:
        mean = arm.spread(split).mean
        flops = arm.spent.flops * arm.spent.trained
        plain = arm.first.match != "method"
        axes.plot([flops], [mean], "ks" if plain else "o", ms=5)
        label = arm.first.match if plain else arm.first.name
        axes.annotate(label, (flops, mean), fontsize=6, xytext=(3, 3), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_xlabel("training FLOPs")
    axes.set_ylabel(f"loss (nats a token, {split} split)")
    axes.set_title(title, fontsize=10)
    return figure


def svg(figure: Figure) -> str:
    """The figure as text to stand in a page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
