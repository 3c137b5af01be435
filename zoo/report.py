"""The report of a bench: tables and plots in Markdown, HTML and TensorBoard, made from results alone."""

from __future__ import annotations

import html
import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zoo.files import write_atomically
from zoo.store import Known, Result
from zoo.verdict import ArmResults, Comparison, Twins, arms, compare, twins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MATCHES = {
    "none": "the plain block",
    "parameters": "as many parameters",
    "flops": "as many FLOPs a token",
    "tokens": "as many FLOPs in all",
}


NOTHING_KNOWN = Known({}, ())


class Table(NamedTuple):
    """Rows of text under a head; the first column names the row."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", "| " + " | ".join(self.head) + " |", "|" + "---|" * len(self.head)]
        return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in self.rows)]) + "\n"

    def page(self) -> str:
        def cells(row: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

        body = "".join(cells(row, "td") for row in self.rows)
        return f"<h2>{html.escape(self.title)}</h2><table>{cells(self.head, 'th')}{body}</table>"


class Report(NamedTuple):
    """What the results say."""

    comparisons: list[Comparison]
    arms: list[ArmResults]
    twins: list[Twins]

    @classmethod
    def of(cls, results: Sequence[Result], known: Known = NOTHING_KNOWN) -> Report:
        return cls(compare(results, known.suites), list(arms(results).values()), twins(results, known.twins))

    def tables(self) -> list[Table]:
        found = [verdicts(of) for of in by_family(self.comparisons)]
        found.append(costs(self.arms, self.comparisons))
        found.append(every_arm(self.arms))
        if self.twins:
            found.append(noise(self.twins))
        return found


def by_family(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    """Comparisons of one suite, host and kind of match, together."""
    families: dict[tuple[str, str, str], list[Comparison]] = {}
    for c in comparisons:
        families.setdefault((c.suite, c.method.first.host, c.match), []).append(c)
    return [families[key] for key in sorted(families)]


def number(value: float, form: str) -> str:
    return "–" if math.isnan(value) else format(value, form)


def against(comparison: Comparison) -> str:
    place = f", suite {comparison.suite}" if comparison.suite else ""
    return f"against {MATCHES.get(comparison.match, comparison.match)}, {comparison.method.first.host} host{place}"


def verdicts(comparisons: Sequence[Comparison]) -> Table:
    rows = []
    for c in sorted(comparisons, key=lambda c: c.difference.mean):
        d = c.difference
        rows.append(
            (
                c.name,
                f"{d.n} (validation)" if c.provisional else str(d.n),
                number(c.method.spread(c.split).mean, ".4f"),
                number(c.baseline.spread(c.split).mean, ".4f"),
                number(d.mean, "+.4f"),
                f"{number(d.low, '+.4f')} … {number(d.high, '+.4f')}",
                f"{number(d.boot_low, '+.4f')} … {number(d.boot_high, '+.4f')}",
                number(d.p, ".3f"),
                number(c.p_holm, ".3f"),
                number(c.detectable, ".4f"),
                c.verdict,
            )
        )
    head = ("method", "n", "loss", "baseline", "difference", "95 % (t)", "95 % (bootstrap)", "p", "p (Holm)")
    return Table(f"Verdicts {against(comparisons[0])}", (*head, "could show", "verdict"), tuple(rows))


def every_arm(found: Sequence[ArmResults]) -> Table:
    rows = []
    for arm in sorted(found, key=lambda a: (a.first.host, a.first.name, a.first.match)):
        s, first = arm.spread(), arm.first
        rows.append(
            (
                first.name,
                first.match,
                first.host,
                str(s.n),
                number(s.mean, ".4f"),
                number(s.deviation, ".4f"),
                arm.split,
                f"{first.lr:.2g}",
                f"{first.parameters:,}",
                f"{first.off_by:+.3%}" if first.match not in ("method", "none") else "–",
                str(arm.diverged),
                "no" if not first.causal else "yes",
            )
        )
    head = (
        "arm",
        "match",
        "host",
        "n",
        "mean loss",
        "deviation",
        "split",
        "learning rate",
        "parameters",
        "match is off by",
    )
    return Table("Every arm", (*head, "diverged", "causal"), tuple(rows))


def costs(found: Sequence[ArmResults], comparisons: Sequence[Comparison]) -> Table:
    """What a method costs beside the plain block of its host."""
    rows = []
    for c in comparisons:
        if c.match != "none":
            continue
        ours, theirs = c.method.first, c.baseline.first

        def mean(arm: ArmResults, field: str) -> float:
            return sum(getattr(run, field) for run in arm.runs) / len(arm.runs)

        speed = fastest(c.baseline.runs) / fastest(c.method.runs)
        memory = mean(c.method, "peak_memory") / mean(c.baseline, "peak_memory")
        extra = ours.parameters - theirs.parameters
        rows.append(
            (c.name, ours.host, f"{extra:+,}", f"{ours.flops / theirs.flops:.3f}", f"{speed:.2f}", f"{memory:.2f}")
        )
    return Table(
        "Cost beside the plain block", ("method", "host", "parameters", "FLOPs ×", "time ×", "memory ×"), tuple(rows)
    )


def fastest(runs: Sequence[Result]) -> float:
    """Tokens a second in the best tenth of all stretches of training: other work on the machine only slows."""
    stretches = [
        (b[1] - a[1]) / (b[2] - a[2]) for run in runs for a, b in itertools.pairwise(run.training) if b[2] > a[2]
    ]
    if len(stretches) < 10:
        return max(run.tokens_per_second for run in runs)
    return statistics.quantiles(stretches, n=10)[-1]


def noise(found: Sequence[Twins]) -> Table:
    rows = tuple(
        (
            f"{t.first} − {t.second}",
            t.host,
            str(t.difference.n),
            number(t.difference.mean, "+.4f"),
            number(t.difference.deviation, ".4f"),
            f"{number(t.difference.low, '+.4f')} … {number(t.difference.high, '+.4f')}",
        )
        for t in found
    )
    title = "Noise: methods that are the same function"
    return Table(title, ("pair", "host", "n", "difference", "deviation", "95 % (t)"), rows)


INTRODUCTION = (
    "Losses are nats a token on the test split (validation, where there is none); differences are method − baseline over"
    " paired seeds, so negative is better. A verdict asks for p < 0.05 after Holm's correction over the methods of a table."
    " “Could show” is the smallest true difference that these seeds would have shown four times of five, whatever the other"
    " methods of the table show. Times compare the fastest tenth of each arm's stretches of training, as other work on the"
    " machine only slows."
)


def markdown(report: Report) -> str:
    return "\n".join(["# Report", "", INTRODUCTION, "", *(table.markdown() for table in report.tables())])


STYLE = (
    "body{font:14px sans-serif;max-width:1100px;margin:2em auto}table{border-collapse:collapse}"
    "td,th{border-bottom:1px solid #ddd;padding:3px 8px;text-align:right}td:first-child,th:first-child{text-align:left}"
)


def page(report: Report) -> str:
    from zoo.figures import svg

    drawn = "".join(f"<figure>{svg(figure)}</figure>" for _, figure in figures(report))
    tables = "".join(table.page() for table in report.tables())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Report</title><style>{STYLE}</style>'
        f"<h1>Report</h1><p>{html.escape(INTRODUCTION)}</p>{tables}<h2>Figures</h2>{drawn}</html>\n"
    )


def figures(report: Report) -> list[tuple[str, Figure]]:
    """Every figure with its name."""
    from zoo import figures as draw

    drawn: list[tuple[str, Figure]] = []
    for of in by_family(report.comparisons):
        name = "_".join(part for part in (of[0].suite, of[0].method.first.host, of[0].match) if part)
        drawn.append((f"differences/{name}", draw.forest(of, f"Differences {against(of[0])}")))
    for (suite, host), here in _together(report.comparisons).items():
        labels = [a.first.name if a.first.match == "method" else f"baseline: {a.first.match}" for a in here]
        name, place = (f"{suite}_{host}", f"suite {suite}, {host} host") if suite else (host, f"{host} host")
        for axis in ("steps", "tokens", "FLOPs", "time (s)"):
            drawn.append((f"curves/{name}_{axis}", draw.curves(here, labels, axis, f"Learning curves, {place}")))
        drawn.append((f"flops/{name}", draw.loss_against_flops(here, f"Loss against FLOPs, {place}")))
    return drawn


def _together(comparisons: Sequence[Comparison]) -> dict[tuple[str, str], list[ArmResults]]:
    """The arms of each suite and host, baselines first."""
    found: dict[tuple[str, str], dict[str, ArmResults]] = {}
    for c in sorted(comparisons, key=lambda c: c.suite):
        found.setdefault((c.suite, c.method.first.host), {}).update({c.baseline.id: c.baseline, c.method.id: c.method})
    return {key: sorted(arms.values(), key=lambda a: a.first.match == "method") for key, arms in found.items()}


def write(report: Report, folder: Path) -> None:
    """report.md, report.html, and the same for TensorBoard."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "report.md", markdown(report))
    write_atomically(folder / "report.html", page(report))
    to_tensorboard(report, folder / "tensorboard")


def to_tensorboard(report: Report, folder: Path) -> None:
    """Figures and tables under `report`, and each run as a row of the HParams tab."""
    import shutil

    from torch.utils.tensorboard import SummaryWriter

    shutil.rmtree(folder, ignore_errors=True)
    with SummaryWriter(str(folder / "report")) as writer:
        for table in report.tables():
            writer.add_text(table.title, table.markdown())
        for name, figure in figures(report):
            writer.add_figure(name.replace(" ", "_"), figure, close=False)
    for arm in report.arms:
        for run in arm.runs:
            _to_hparams(run, folder / f"{run.name}-{run.match}-{run.host}-s{run.seed}-{run.key[:6]}")


def _to_hparams(run: Result, folder: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter
    from torch.utils.tensorboard.summary import hparams

    chosen = {"method": run.name, "match": run.match, "host": run.host, "seed": run.seed, "lr": run.lr}
    figures = {"loss": run.loss, "valid_loss": run.valid_loss or math.nan, "parameters": float(run.parameters)}
    with SummaryWriter(str(folder)) as writer:
        for summary in hparams(chosen, {f"result/{name}": value for name, value in figures.items()}):
            writer._get_file_writer().add_summary(summary)
        for name, value in figures.items():
            writer.add_scalar(f"result/{name}", value, run.steps)
        for name, points in (("train", run.training), ("valid", run.curve)):
            for step, _, _, loss in points:
                writer.add_scalar(f"{name}/loss", loss, step)


def changes(now: Report, before: Report) -> Table:
    """What is different from an earlier report, comparison by comparison."""
    earlier = {(c.name, c.method.first.host, c.match): c for c in before.comparisons}
    rows = []
    for c in now.comparisons:
        old = earlier.get((c.name, c.method.first.host, c.match))
        was = "–" if old is None else f"{old.difference.mean:+.4f} ({old.verdict}, n {old.difference.n})"
        rows.append(
            (c.name, c.method.first.host, c.match, was, f"{c.difference.mean:+.4f} ({c.verdict}, n {c.difference.n})")
        )
    gone = earlier.keys() - {(c.name, c.method.first.host, c.match) for c in now.comparisons}
    rows += [(*key, f"{earlier[key].difference.mean:+.4f} ({earlier[key].verdict})", "–") for key in sorted(gone)]
    return Table("Against the earlier results", ("method", "host", "match", "before", "now"), tuple(rows))


def show(tables: Sequence[Table]) -> None:
    """Print tables: drawn on a terminal, plain Markdown elsewhere."""
    import sys

    if not sys.stdout.isatty():
        print("\n".join(table.markdown() for table in tables))
        return
    from rich.console import Console
    from rich.table import Table as Drawn

    console = Console()
    for table in tables:
        drawn = Drawn(*table.head, title=table.title, title_justify="left")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
