"""κ against compute: a line per arm, a point with its interval per rung."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from zoo.report.ladder_results import LadderFindings, LadderRow
from zoo.report.ladder_tables import title
from zoo.system.foreign_text import label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 8  # methods that are drawn: those whose κ differs most from 1
CONTROL = "#888888"


def drawn_rows(ladder: LadderFindings) -> list[LadderRow]:
    """The controls without the harm, which would press all others together, and the methods that differ most."""
    known = [row for row in ladder.rows if row.compute is not None and row.role != "harm"]
    methods = [row for row in known if row.role == "method"]
    most = sorted(methods, key=lambda row: -abs(row.compute.log.value if row.compute else 0.0))[:MOST]
    return [row for row in known if row.role != "method" or row in most]


def kappa_figure(ladder: LadderFindings) -> Figure:
    """κ of every arm against the compute of the rungs; controls are grey."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(textwrap.fill(label(f"κ against compute, {title(ladder)}", 300), 90), fontsize=10)
    for row in drawn_rows(ladder):
        points = [(math.exp(at.compute.x), at.compute.log) for at in row.rungs if math.isfinite(at.compute.log.value)]
        logs = [log for _, log in points]
        kappas = [math.exp(log.value) for log in logs]
        intervals = [log.interval() for log in logs]
        reach = [
            [kappa - math.exp(low) for kappa, (low, _) in zip(kappas, intervals, strict=True)],
            [math.exp(high) - kappa for kappa, (_, high) in zip(kappas, intervals, strict=True)],
        ]
        colour = None if row.role == "method" else CONTROL
        style = "-" if row.role == "method" else "--"
        axes.errorbar(
            [x for x, _ in points], kappas, reach, fmt=f"o{style}", color=colour, ms=4, lw=1, capsize=2,
            label=label(row.label),
        )  # fmt: skip
    axes.axhline(1, color="black", lw=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("compute of the plain block (FLOPs)")
    axes.set_ylabel("κ")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, frameon=False)
    return figure
