"""The report in TensorBoard: figures, tables and hyper-parameters of all runs."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.bench.store import Result
from zoo.report import learned_values
from zoo.report.arm_results import ArmResults
from zoo.report.cell_texts import short_name
from zoo.report.chart_figure import chart_figure
from zoo.report.charts import Chart
from zoo.report.findings import Findings
from zoo.report.grouping import methods_of
from zoo.report.method_charts import LEARNED
from zoo.report.method_pages import method_pages
from zoo.report.overview import overview_table, parts
from zoo.report.selection import all_drawn, curves_drawn, largest_difference
from zoo.report.standings import Standing, standings
from zoo.report.tables import tables
from zoo.runs.event_file import Events
from zoo.runs.event_summaries import figure_summary, row_end, row_summaries, text_summary
from zoo.runs.tensorboard import LOSS
from zoo.system import foreign_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TENSORBOARD = "tensorboard"
REPORT = "report"  # the run of TensorBoard that has figures and tables
RUN = re.compile(r".+-s-?\d+-[0-9a-f]{6}")  # the runs of TensorBoard that are runs: see run_folder
METHODS = 12  # whose pages TensorBoard gets the charts of
SHOWN = 40  # TensorBoard ticks the runs by itself up to this many
IN_TENSORBOARD, SOME = 400, 100  # runs: TensorBoard gets all of up to 400, and 100 of more


def to_tensorboard(report: Findings, drawn: Sequence[tuple[str, Figure]], folder: Path) -> None:
    """Write figures and tables under `report`, and each run as a row of the HParams tab."""
    with _events(folder / REPORT) as events:
        # TensorBoard shows tags by name: numbers keep our order, and "report" sorts after "loss", which is each run's.
        rows = standings(report)
        shown_first = map(overview_table, parts(rows))
        for number, table in enumerate(itertools.chain(shown_first, tables(report, learned=True)), start=1):
            shown = table.shortened() if table.brief else table  # the tab is narrow
            events.summary(text_summary(f"{number:02d} {table.title}", shown.markdown()))
        for number, (name, figure) in enumerate(_for_cards(drawn), start=1):
            events.summary(figure_summary(f"{REPORT}/{number:02d}_{re.sub('[ /]', '_', name)}", figure))
        for of in curves_drawn(report):
            for name, figure in learned_values.cards(methods_of(of)):
                events.summary(figure_summary(f"{REPORT}_learned/{short_name(of[0])}_{name}", figure))
        for name, chart in _method_charts(report, rows):
            events.summary(figure_summary(f"{REPORT}_methods/{name}", chart_figure(chart)))
    for run in _in_tensorboard(report):
        _to_hparams(run, folder / run_folder(run))


@contextlib.contextmanager
def _events(folder: Path) -> Iterator[Events]:
    """An event file in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(Events(folder)) as events:
        yield events


def _method_charts(report: Findings, rows: Sequence[Standing]) -> Iterator[tuple[str, Chart]]:
    """The charts of methods' pages but for learned values, which have cards of their own; of many methods, of the first."""
    pages = method_pages(report, rows[:METHODS]) if all_drawn(report) else []
    for page in pages:
        charts = [chart for part in page.parts for chart in part.charts if not chart.name.startswith(LEARNED)]
        for number, chart in enumerate(charts, start=1):
            yield f"{page.slug}/{number}_{chart.name}", chart._replace(title=f"{page.name}: {chart.title}")


def _in_tensorboard(report: Findings) -> list[Result]:
    """The runs that TensorBoard gets: all, or those of the methods that differ most, with their baselines."""
    runs = [run for arm in report.arms for run in arm.runs]
    if len(runs) <= IN_TENSORBOARD:
        return runs
    chosen: dict[str, ArmResults] = {}
    for c in sorted(report.comparisons, key=lambda c: -largest_difference([c])):
        chosen |= {c.baseline.id: c.baseline, c.method.id: c.method}
        if len(chosen) >= SOME:  # each has a run or more
            break
    return [run for arm in chosen.values() for run in arm.runs][:SOME]


def run_folder(run: Result) -> str:
    """The name of a run's folder, which is one name whatever the store calls the run."""
    key = run.key[:6] if re.match(r"[0-9a-f]{6}", run.key) else hashlib.sha256(run.key.encode()).hexdigest()[:6]
    return f"{foreign_text.file_name(f'{run.name}-{run.match}-{run.host}')}-s{run.seed}-{key}"


def _for_cards(drawn: Sequence[tuple[str, Figure]]) -> list[tuple[str, Figure]]:
    """The figures that a card has room for first; those with a panel per method last, or in cards of their own."""
    others = [each for each in drawn if not each[0].startswith("learned/")]
    return sorted(others, key=lambda each: each[0].startswith("curves/"))


def _to_hparams(run: Result, folder: Path) -> None:
    chosen: dict[str, float | int | str | bool] = {
        "method": run.name,
        "match": run.match,
        "host": run.host,
        "seed": run.seed,
        "lr": run.lr,
    }
    figures = {"loss": run.loss, "valid_loss": run.valid_loss or math.nan, "parameters": float(run.parameters)}
    results = {f"result/{name}": value for name, value in figures.items()}
    with _events(folder) as events:
        for summary in (*row_summaries(chosen, list(results)), row_end()):
            events.summary(summary)
        events.scalars(results, run.steps)
        for name, points in (("train", run.training), ("valid", run.curve)):
            for step, _, _, loss in points:
                events.scalars({f"{LOSS}/{name}": loss}, step)
