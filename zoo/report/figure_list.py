"""The figures of a report, each with its name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.bench.rate_curves import rate_curves
from zoo.report import figures, learned_values
from zoo.report.cell_texts import against, short_name, where
from zoo.report.findings import Findings
from zoo.report.grouping import by_method, methods_of
from zoo.report.ladder_figures import kappa_figure
from zoo.report.overview import MOST_ROWS, parts, shown
from zoo.report.selection import ROWS, all_drawn, curves_drawn, differences_drawn
from zoo.report.standings import Standing, standings
from zoo.report.verdict_words import VOID
from zoo.report.verdicts import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BARS = 80  # rows of the first figure
AXES = ("steps", "tokens", "FLOPs", "time (s)")  # of learning curves
DIFFERENCE = "loss of the method − loss of the baseline (nats per token)"


def report_figures(report: Findings) -> list[tuple[str, Figure]]:
    """Every figure that is drawn, with its name: as many as a person can look at."""
    drawn = overview_figures(standings(report))
    for ladder in report.ladders:
        drawn.append((f"ladders/{ladder.key}", kappa_figure(ladder)))
    for of in differences_drawn(report):
        name, title = f"differences/{short_name(of[0])}_{of[0].match}", f"Differences {against(of[0])}"
        drawn.append((name, figures.forest(_bars(of), title, DIFFERENCE)))
    for of in curves_drawn(report):
        values = learned_values.figure(methods_of(of), f"Learned values at the end, {where(of[0])}")
        drawn += [(f"learned/{short_name(of[0])}", values)] if values else []
    for of in curves_drawn(report):
        name, conditions, panels = short_name(of[0]), where(of[0]), _panels(of)
        for axis in AXES if all_drawn(report) else ("tokens",):
            drawn.append((f"curves/{name}_{axis}", figures.curves(panels, axis, f"Learning curves, {conditions}")))
        arms = {arm.id: arm for panel in panels for arm in (*panel.baselines, panel.method)}
        if rates := rate_curves([run for arm in arms.values() for run in arm.tried]):
            title = f"Loss against learning rate, {conditions}"
            drawn.append((f"rates/{name}", figures.loss_against_rate(rates, title)))
        drawn.append(
            (f"flops/{name}", figures.loss_against_flops(list(arms.values()), f"Loss against FLOPs, {conditions}"))
        )
    return drawn


def overview_figures(some: Sequence[Standing]) -> list[tuple[str, Figure]]:
    """The figure of the first screen: κ of every method with its interval, and differences of those that have none."""
    drawn = []
    for of in parts(some):
        most = MOST_BARS if len(of) <= MOST_ROWS else ROWS
        rows = [each for each in shown(of) if not math.isnan(each.effect.value)][:most]
        bars = [figures.Bar(_bar_name(each, of), *each.effect, each.verdict) for each in rows]
        if not bars:
            continue
        if of[0].ladder:
            sound = [each.effect for each in rows if each.word not in VOID and each.role != "harm"]
            ends = [end for effect in sound for end in effect if math.isfinite(end)]
            reach = (max(0.5, min([0.95, *ends])), min(2.0, max([1.05, *ends])))
            title = "κ over all rungs with 95 % intervals: right of 1 a method helps"
            drawn.append(("overview/kappa", figures.forest(bars, title, "κ", reach)))
        else:
            title = "Differences at one size with 95 % intervals: left of 0 a method is better"
            drawn.append(("overview/differences", figures.forest(bars, title, DIFFERENCE)))
    return drawn


def _bar_name(standing: Standing, among: Sequence[Standing]) -> str:
    return standing.name if len({each.host for each in among}) == 1 else f"{standing.name}, {standing.host}"


def _bars(comparisons: Sequence[Comparison]) -> list[figures.Bar]:
    """The differences of some comparisons, the best first."""
    ordered = sorted(comparisons, key=lambda c: (math.isnan(c.difference.mean), c.difference.mean))
    return [figures.Bar(c.name, c.difference.mean, *c.difference.interval(), c.verdict) for c in ordered]


def _panels(comparisons: Sequence[Comparison]) -> list[figures.Panel]:
    """Each method with its baselines, as they are compared."""
    return [figures.Panel(of[0].method, [c.baseline for c in of]) for of in by_method(comparisons)]
