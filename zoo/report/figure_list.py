"""The figures of a report, each with its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.bench.rate_curves import rate_curves
from zoo.report import figures, learned_values
from zoo.report.cell_texts import against, short_name, where
from zoo.report.findings import Findings
from zoo.report.grouping import by_method, methods_of
from zoo.report.ladder_figures import kappa_figure
from zoo.report.selection import curves_drawn, differences_drawn
from zoo.report.verdicts import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def report_figures(report: Findings) -> list[tuple[str, Figure]]:
    """Every figure that is drawn, with its name: as many as a person can look at."""
    drawn: list[tuple[str, Figure]] = []
    for ladder in report.ladders:
        drawn.append((f"ladders/{ladder.key}", kappa_figure(ladder)))
    for of in differences_drawn(report):
        drawn.append(
            (f"differences/{short_name(of[0])}_{of[0].match}", figures.forest(of, f"Differences {against(of[0])}"))
        )
    for of in curves_drawn(report):
        values = learned_values.figure(methods_of(of), f"Learned values at the end, {where(of[0])}")
        drawn += [(f"learned/{short_name(of[0])}", values)] if values else []
    for of in curves_drawn(report):
        name, conditions, panels = short_name(of[0]), where(of[0]), _panels(of)
        for axis in ("steps", "tokens", "FLOPs", "time (s)"):
            drawn.append((f"curves/{name}_{axis}", figures.curves(panels, axis, f"Learning curves, {conditions}")))
        arms = {arm.id: arm for panel in panels for arm in (*panel.baselines, panel.method)}
        if rates := rate_curves([run for arm in arms.values() for run in arm.tried]):
            title = f"Loss against learning rate, {conditions}"
            drawn.append((f"rates/{name}", figures.loss_against_rate(rates, title)))
        drawn.append(
            (f"flops/{name}", figures.loss_against_flops(list(arms.values()), f"Loss against FLOPs, {conditions}"))
        )
    return drawn


def _panels(comparisons: Sequence[Comparison]) -> list[figures.Panel]:
    """Each method with its baselines, as they are compared."""
    return [figures.Panel(of[0].method, [c.baseline for c in of]) for of in by_method(comparisons)]
