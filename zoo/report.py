"""The report of a bench: tables and plots in Markdown, HTML and TensorBoard, made from results alone."""

from __future__ import annotations

import contextlib
import html
import math
import re
import shlex
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zoo.files import write_atomically
from zoo.store import NOTHING_KNOWN, Known, Result
from zoo.table import Table
from zoo.verdict import ArmResults, Comparison, Twins, arms, compare, twins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from zoo.figures import Panel

MATCHES = {
    "none": "the plain block",
    "parameters": "as many parameters",
    "flops": "as many FLOPs a token",
    "tokens": "as many FLOPs in all",
}
FIGURES = "figures"
TENSORBOARD = "tensorboard"
REPORT = "report"  # the run of TensorBoard that has figures and tables
RUN = re.compile(r".+-s\d+-[0-9a-f]{6}")  # … and those of the runs
SHOWN = 40  # runs that TensorBoard shows without being asked


class Report(NamedTuple):
    """What the results say."""

    comparisons: list[Comparison]
    arms: list[ArmResults]
    twins: list[Twins]
    changes: Table | None = None  # since an earlier report

    @classmethod
    def of(cls, results: Sequence[Result], known: Known = NOTHING_KNOWN) -> Report:
        return cls(compare(results, known), list(arms(results, known).values()), twins(results, known))

    def only(self, ids: set[str]) -> Report:
        """What it says of these arms."""
        names = {arm.first.name for arm in self.arms if arm.id in ids}
        return self._replace(
            comparisons=[c for c in self.comparisons if c.method.id in ids],
            arms=[arm for arm in self.arms if arm.id in ids],
            twins=[pair for pair in self.twins if {pair.first, pair.second} <= names],
        )

    def against(self, earlier: Report) -> Report:
        return self._replace(changes=changes(self, earlier))

    def tables(self) -> list[Table]:
        found = _told_apart(by_family(self.comparisons))
        found.append(costs(self.comparisons))
        found.append(every_arm(self.arms))
        if self.twins:
            found.append(noise(self.twins))
        return found + ([self.changes] if self.changes else [])


def by_family(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    """Comparisons that were asked together."""
    families: dict[tuple[str, ...], list[Comparison]] = {}
    for c in comparisons:
        families.setdefault(c.family, []).append(c)
    return [families[key] for key in sorted(families, key=order)]


def order(family: tuple[str, ...]) -> tuple[str | int, ...]:
    """Where a family stands: what it was matched in, its last part, counts as listed above."""
    *place, match = family
    return (*place, list(MATCHES).index(match))


def by_method(comparisons: Iterable[Comparison]) -> list[list[Comparison]]:
    """Comparisons of each method's arm."""
    methods: dict[str, list[Comparison]] = {}
    for c in comparisons:
        methods.setdefault(c.method.id, []).append(c)
    return list(methods.values())


def number(value: float, form: str) -> str:
    return "–" if math.isnan(value) else format(value, form)


def chance(p: float) -> str:
    return "< 0.001" if p < 0.001 else number(p, ".3f")


def against(comparison: Comparison) -> str:
    return f"against {MATCHES[comparison.match]}, {where(comparison)}"


def where(comparison: Comparison) -> str:
    """Suite, host, and how large the plain model is and how long it trains."""
    suite = f"suite {comparison.suite}, " if comparison.suite else ""
    return f"{suite}{comparison.method.first.host} host{size(comparison.plain)}"


def size(plain: ArmResults | None) -> str:
    return f", {plain.spent.parameters:,} parameters, {plain.spent.trained:,} tokens" if plain else ""


def verdicts(comparisons: Sequence[Comparison]) -> Table:
    rows = []
    for c in sorted(comparisons, key=lambda c: (math.isnan(c.difference.mean), c.difference.mean)):
        d, (ours, theirs) = c.difference, c.means()
        rows.append(
            (
                c.name,
                f"{d.n}{caveats(c)}",
                number(ours, ".4f"),
                number(theirs, ".4f"),
                number(d.mean, "+.4f"),
                f"{number(d.low, '+.4f')} … {number(d.high, '+.4f')}",
                f"{number(d.boot_low, '+.4f')} … {number(d.boot_high, '+.4f')}",
                chance(d.p),
                chance(c.p_holm),
                number(c.detectable, ".4f"),
                " / ".join(dict.fromkeys(f"{arm.first.lr:.2g}" for arm in (c.method, c.baseline))),
                "–" if c.match == "none" else f"{c.off_by:+.3%}",
                c.verdict,
            )
        )
    head = ("method", "n", "loss", "baseline", "difference", "95 % (t)", "95 % (bootstrap)", "p", "p (Holm)")
    return Table(
        f"Verdicts {against(comparisons[0])}",
        (*head, "could show", "learning rate", "match is off by", "verdict"),
        tuple(rows),
        brief=("method", "n", "difference", "95 % (t)", "p (Holm)", "verdict"),
    )


def _told_apart(families: Sequence[Sequence[Comparison]]) -> list[Table]:
    """A table for each family; what looks alike in its title is told apart by the plain model's arm."""
    tables = [verdicts(of) for of in families]
    titles = [table.title for table in tables]
    return [
        table._replace(title=f"{table.title}, arm {of[0].method.place}") if titles.count(table.title) > 1 else table
        for table, of in zip(tables, families, strict=True)
    ]


def caveats(c: Comparison) -> str:
    """What to know of the seeds beside their number."""
    lost = [
        f"{who} diverged on {arm.diverged}"
        for who, arm in (("method", c.method), ("baseline", c.baseline))
        if arm.diverged
    ]
    told = [*(["validation"] if c.provisional else []), *lost]
    return f" ({', '.join(told)})" if told else ""


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
                ", ".join(f"{factor:g}" for factor in sorted(arm.factors)),
                f"{first.parameters:,}",
                f"{arm.spent.trained:,}",
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
        "of ×",
        "parameters",
        "tokens",
    )
    brief = ("arm", "match", "n", "mean loss", "deviation", "learning rate", "diverged")
    return Table("Every arm", (*head, "diverged", "causal"), tuple(rows), brief)


def costs(comparisons: Sequence[Comparison]) -> Table:
    """What a method costs beside the plain block of its host."""
    rows = []
    for c in {c.method.id: c for c in comparisons if c.plain}.values():
        assert c.plain is not None
        ours, theirs = c.method.first, c.plain.first
        extra = ours.parameters - theirs.parameters
        rows.append(
            (c.name, ours.host, f"{extra:+,}", f"{ours.flops / theirs.flops:.3f}", *_measured(c.method, c.plain))
        )
    head = ("method", "host", "parameters", "FLOPs ×", "time ×", "95 %", "memory ×")
    return Table("Cost beside the plain block", head, tuple(rows))


def _measured(arm: ArmResults, plain: ArmResults) -> tuple[str, str, str]:
    """Time, its interval, memory; "≈" before what only the runs themselves say, which nobody measured in turns."""
    if arm.cost is None or arm.cost.plain != plain.id:
        return f"≈ {plain.own_speed / arm.own_speed:.2f}", "–", f"≈ {_process(arm) / _process(plain):.2f}"
    time, memory = arm.cost.time_ratio, arm.cost.memory_ratio
    return f"{time.value:.2f}", f"{time.low:.2f} … {time.high:.2f}", "–" if memory is None else f"{memory:.2f}"


def _process(arm: ArmResults) -> float:
    """The memory of a whole process."""
    return statistics.fmean(run.peak_memory for run in arm.runs)


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
    head = ("pair", "host", "n", "difference", "deviation", "95 % (t)")
    return Table(title, head, rows, brief=("pair", "n", "difference", "95 % (t)"))


INTRODUCTION = (
    "Losses are nats a token on the test split (validation, where there is none); differences are method − baseline over"
    " paired seeds, so negative is better. A verdict asks for p < 0.05 after Holm's correction over the methods of a suite"
    " that were asked the same. “Could show” is the smallest true difference that these seeds would have shown four times"
    " of five, whatever the other methods show, by the deviation that they happened to have; a difference that was shown"
    " and is smaller is likely to be overrated. Of few seeds the bootstrap interval is too narrow: of three it goes from"
    " the least difference to the largest. Two learning rates are the method's and the baseline's, each the best of those"
    " that both had the choice of. “Match is off by” is what the baseline has more or less than the method. Time and"
    " memory are those of a training step as ratios to the plain block's, measured in turns with it, each in a process of"
    " its own with as many threads as a run, the memory beyond the weights: what is kept for the gradient, gradients, and"
    " the optimiser's state. Where that was not measured, “≈” stands before what the runs themselves say: the speeds that a"
    " tenth of each arm's stretches of training exceed and the memory of whole processes, a hint."
)


def markdown(report: Report, figures: Iterable[str] = ()) -> str:
    tables = [table.markdown() for table in report.tables()]
    drawn = [f"![{name}]({FIGURES}/{_file(name)})\n" for name in figures]
    return "\n".join(["# Report", "", INTRODUCTION, "", *tables, *(["## Figures", ""] if drawn else []), *drawn])


def _file(figure: str) -> str:
    return re.sub(r"[^\w.+-]+", "_", figure) + ".svg"


STYLE = (
    "body{font:14px sans-serif;max-width:1100px;margin:2em auto}table{border-collapse:collapse}"
    "td,th{border-bottom:1px solid #ddd;padding:3px 8px;text-align:right;white-space:nowrap}"
    "td:first-child,th:first-child{text-align:left}"
)


def page(report: Report, figures: Iterable[str] = ()) -> str:
    """The report to look at; figures are SVG."""
    drawn = "".join(f"<figure>{figure}</figure>" for figure in figures)
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
        drawn.append((f"differences/{_short(of[0])}_{of[0].match}", draw.forest(of, f"Differences {against(of[0])}")))
    for of in _together(report.comparisons):
        name, place, panels = _short(of[0]), where(of[0]), _panels(of)
        for axis in ("steps", "tokens", "FLOPs", "time (s)"):
            drawn.append((f"curves/{name}_{axis}", draw.curves(panels, axis, f"Learning curves, {place}")))
        here = {arm.id: arm for panel in panels for arm in (*panel.baselines, panel.method)}
        drawn.append((f"flops/{name}", draw.loss_against_flops(list(here.values()), f"Loss against FLOPs, {place}")))
    return drawn


def _short(c: Comparison) -> str:
    """Where a comparison stands, as part of a figure's name."""
    return "_".join(part for part in (c.suite, c.method.first.host, c.method.place[:6]) if part)


def _together(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    """Comparisons of each suite and place, whatever they match."""
    found: dict[tuple[str, ...], list[Comparison]] = {}
    for c in comparisons:
        found.setdefault(c.family[:-1], []).append(c)
    return [found[key] for key in sorted(found)]


def _panels(comparisons: Sequence[Comparison]) -> list[Panel]:
    """Each method with its baselines, as they are compared."""
    from zoo.figures import Panel

    return [Panel(of[0].method, [c.baseline for c in of]) for of in by_method(comparisons)]


def write(report: Report, folder: Path) -> None:
    """report.md with its figures, report.html, and the same for TensorBoard."""
    from zoo.figures import svg

    drawn = figures(report)
    images = {name: svg(figure) for name, figure in drawn}
    _clear(folder)
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    for name, image in images.items():
        write_atomically(folder / FIGURES / _file(name), image)
    write_atomically(folder / "report.md", markdown(report, images))
    write_atomically(folder / "report.html", page(report, images.values()))
    to_tensorboard(report, drawn, folder / TENSORBOARD)


def _clear(folder: Path) -> None:
    """Take away what an earlier report wrote here, and nothing else."""
    earlier = folder / "report.md"
    if earlier.is_file():
        for name in re.findall(rf"\]\(({FIGURES}/[^)/]+\.svg)\)", earlier.read_text(encoding="utf-8")):
            (folder / name).unlink(missing_ok=True)
    events = folder / TENSORBOARD
    for file in events.glob("*/events.out.tfevents.*"):
        if file.parent.name != REPORT and not RUN.fullmatch(file.parent.name):
            continue
        file.unlink()
        with contextlib.suppress(OSError):  # something else is in it
            file.parent.rmdir()


def tell(report: Report, folder: Path) -> None:
    """Where the report is."""
    events = folder / TENSORBOARD
    print(f"report   {folder / 'report.html'}\nlook     tensorboard --logdir {shlex.quote(str(events))}")
    if sum(len(arm.runs) for arm in report.arms) >= SHOWN:
        figures = shlex.quote(str(events / REPORT))
        print(
            f"         … begins with no run of so many ticked; figures and tables alone: tensorboard --logdir {figures}"
        )


def to_tensorboard(report: Report, drawn: Sequence[tuple[str, Figure]], folder: Path) -> None:
    """Figures and tables under `report`, and each run as a row of the HParams tab."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder / REPORT)) as writer:
        for table in report.tables():
            writer.add_text(table.title, table.markdown())
        for name, figure in drawn:
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
    old, new = _by_place(before.comparisons), _by_place(now.comparisons)
    rows = []
    for key in dict.fromkeys([*new, *old]):
        was, is_now = old.get(key), new.get(key)
        c = is_now or was
        assert c is not None
        rows.append((c.name, f"{c.method.first.host}{size(c.plain)}", c.match, _outcome(was), _outcome(is_now)))
    return Table("Against the earlier results", ("method", "host", "match", "before", "now"), tuple(rows))


def _by_place(comparisons: Sequence[Comparison]) -> dict[tuple[str, ...], Comparison]:
    """By what they are about: the same arms, whatever has come to be known of them."""
    return {(c.method.id, c.match): c for c in comparisons}


def _outcome(c: Comparison | None) -> str:
    return f"{number(c.difference.mean, '+.4f')} ({c.verdict}, n {c.difference.n})" if c else "–"
