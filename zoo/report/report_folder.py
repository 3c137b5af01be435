"""The report in a folder: its pages, figures and TensorBoard events."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

from zoo.report.figure_list import report_figures
from zoo.report.figures import svg
from zoo.report.findings import Findings
from zoo.report.html_report import html_pieces
from zoo.report.markdown_pages import FIGURES
from zoo.report.overview import answers, parts
from zoo.report.pages import figure_file, markdown_pieces
from zoo.report.selection import left_out
from zoo.report.standings import standings
from zoo.report.tensorboard import IN_TENSORBOARD, REPORT, RUN, SHOWN, SOME, TENSORBOARD, to_tensorboard
from zoo.system.files import write_atomically, write_pieces_atomically
from zoo.system.memory import collection_paused


def write_report(report: Findings, folder: Path) -> None:
    """Write report.md with its figures, report.html, and the same for TensorBoard."""
    with collection_paused():
        _write(report, folder)


def _write(report: Findings, folder: Path) -> None:
    drawn, note = report_figures(report), left_out(report)
    images = {name: svg(figure) for name, figure in drawn}
    _clear(folder)
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    for name, image in images.items():
        write_atomically(folder / FIGURES / figure_file(name), image)
    write_pieces_atomically(folder / "report.md", markdown_pieces(report, images, note))
    write_pieces_atomically(folder / "report.html", html_pieces(report))
    to_tensorboard(report, drawn, folder / TENSORBOARD)


def _clear(folder: Path) -> None:
    """Remove what an earlier report wrote here, and nothing else."""
    earlier = folder / "report.md"
    if earlier.is_file():
        for name in re.findall(
            rf"\]\(({FIGURES}/[^)/]+\.svg)\)", earlier.read_text(encoding="utf-8", errors="replace")
        ):
            (folder / name).unlink(missing_ok=True)
    events = folder / TENSORBOARD
    for file in events.glob("*/events.out.tfevents.*"):
        if file.parent.name != REPORT and not RUN.fullmatch(file.parent.name):
            continue
        file.unlink()
        with contextlib.suppress(OSError):  # something else is in it
            file.parent.rmdir()


def print_report(report: Findings, folder: Path) -> None:
    """Print what the verdicts mean, where the report is, and what its figures leave out."""
    for of in parts(standings(report)):
        for answer in answers(of):
            print(f"{answer.word:<20}{answer.meaning}")
    events = folder / TENSORBOARD
    print(f"report   {folder / 'report.html'}\nview     tensorboard --logdir {shlex.quote(str(events))}")
    runs = sum(len(arm.runs) for arm in report.arms)
    if runs >= SHOWN:
        figures = shlex.quote(str(events / REPORT))
        print(f"         (starts with no run ticked; figures and tables alone: tensorboard --logdir {figures})")
    if runs > IN_TENSORBOARD:
        print(f"         TensorBoard has {SOME} of {runs:,} runs: those of the methods that differ most")
    if note := left_out(report):
        print(f"         {note}")
