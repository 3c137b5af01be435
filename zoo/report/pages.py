"""The report in Markdown: the first screen, what its words mean, every table, and figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from zoo.report.beside_loss import COLUMNS, beside_loss_table
from zoo.report.conditions import conditions
from zoo.report.findings import Findings
from zoo.report.legend import introduction
from zoo.report.markdown_pages import FIGURES, first_screen, remarks_section
from zoo.report.overview import controls_table, marks_text
from zoo.report.redefined import redefined_text
from zoo.report.remarks import how_sure
from zoo.report.standings import standings
from zoo.report.tables import tables
from zoo.system import foreign_text

OVERVIEW = "overview/"  # what the names of the first screen's figures begin with


def markdown(report: Findings, figures: Iterable[str] = (), left_out: str = "") -> str:
    """The report in Markdown; of figures, their names; `left_out` says what they do not show."""
    return "".join(markdown_pieces(report, figures, left_out))


def markdown_pieces(report: Findings, figures: Iterable[str], left_out: str) -> Iterator[str]:
    """The report in Markdown, piece by piece, each a line or several."""
    names = list(figures)
    first = [f"{FIGURES}/{figure_file(name)}" for name in names if name.startswith(OVERVIEW)]
    drawn = [_image(name) for name in names if not name.startswith(OVERVIEW)]
    rows = standings(report)
    said = how_sure(report)
    lines = ["# Report", "", *first_screen(rows, first, {}, said)]
    lines += [f"{known}\n"] if (known := marks_text(rows)) else []
    if beside := beside_loss_table(report, rows):
        lines += [beside.markdown(), COLUMNS, ""]
    lines += remarks_section(said)
    lines += [controls_table(ladder).markdown() for ladder in report.ladders]
    lines += [foreign_text.markdown(conditions(report)), "", introduction(report), ""]
    lines += [foreign_text.markdown(redefined_text(report.redefined)), ""] if report.redefined else []
    head = ["## Figures", "", *([left_out, ""] if left_out else [])] if drawn else []
    long = (table.markdown() for table in tables(report, learned=True))
    yield from (f"{line}\n" for line in itertools.chain(lines, long, head, drawn))


def _image(name: str) -> str:
    return f"![{foreign_text.markdown(name)}]({FIGURES}/{figure_file(name)})\n"


def figure_file(figure: str) -> str:
    """The name of a figure's file."""
    return foreign_text.file_name(figure.replace("/", "_").replace(" ", "_")) + ".svg"
