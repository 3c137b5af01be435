"""A chart as a figure of matplotlib, for TensorBoard."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from zoo.report.charts import Chart, Series, extent, x_values, y_values
from zoo.system.foreign_text import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def chart_figure(chart: Chart) -> Figure:
    """The chart, drawn."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(textwrap.fill(label(chart.title, 200), 70), fontsize=9)
    for each in chart.series:
        _series(axes, each)
    if chart.level is not None:
        axes.axhline(chart.level, color="black", lw=0.8)
    for axis, set_scale, set_ends, values in (
        (chart.x, axes.set_xscale, axes.set_xlim, x_values(chart)),
        (chart.y, axes.set_yscale, axes.set_ylim, y_values(chart)),
    ):
        if axis.log:
            set_scale("log")
        set_ends(*extent(axis, values))
    axes.set_xlabel(label(chart.x.label), fontsize=8)
    axes.set_ylabel(label(chart.y.label), fontsize=8)
    axes.tick_params(labelsize=7)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, frameon=False)
    return figure


def _series(axes: Axes, series: Series) -> None:
    style = ("--" if series.dashed else "-") if series.line else ""
    marker = "o" if series.marks else None
    name = label(series.label) if series.label else None
    axes.plot(series.xs, series.ys, ls=style, marker=marker, ms=3, lw=1.2, color=series.colour, label=name)
    if series.lows and series.band:
        axes.fill_between(series.xs, series.lows, series.highs, color=series.colour, alpha=0.15, lw=0)
    elif series.lows:
        axes.vlines(series.xs, series.lows, series.highs, color=series.colour, lw=1.2)
