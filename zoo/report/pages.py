"""The report as Markdown and as HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from zoo.report.findings import Findings
from zoo.report.legend import BASIS, introduction, legend
from zoo.report.tables import tables
from zoo.system import foreign_text

FIGURES = "figures"
STYLE = (
    "body{font:14px sans-serif;max-width:1100px;margin:2em auto}table{border-collapse:collapse}"
    "td,th{border-bottom:1px solid #ddd;padding:3px 8px;text-align:right;white-space:nowrap}"
    "td:first-child,th:first-child{text-align:left}"
)


def markdown(report: Findings, figures: Iterable[str] = (), left_out: str = "") -> str:
    """The report in Markdown; of figures, their names; `left_out` says what they do not show."""
    shown = [table.markdown() for table in tables(report, learned=True)]
    drawn = [f"![{foreign_text.markdown(name)}]({FIGURES}/{figure_file(name)})\n" for name in figures]
    head = ["## Figures", "", *([left_out, ""] if left_out else [])] if drawn else []
    return "\n".join(["# Report", "", introduction(report), "", *shown, *head, *drawn])


def figure_file(figure: str) -> str:
    """The name of a figure's file."""
    return foreign_text.file_name(figure.replace("/", "_").replace(" ", "_")) + ".svg"


def html_page(report: Findings, figures: Iterable[str] = (), left_out: str = "") -> str:
    """The report in HTML; figures are SVG."""
    drawn = [f"<figure>{figure}</figure>" for figure in figures]
    items = "".join(f"<li><b>{html.escape(name)}</b>: {_emphasised(text)}</li>" for name, text in legend(report))
    note = f"<p>{html.escape(left_out)}</p>" if left_out else ""
    head = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Report</title><style>{STYLE}</style>'
        f"<h1>Report</h1><p>{html.escape(BASIS)}</p><ul>{items}</ul>"
    )
    shown = (table.html() for table in tables(report, learned=True))
    return "".join([head, *shown, "<h2>Figures</h2>", note, *drawn, "</html>\n"])


def _emphasised(text: str) -> str:
    """A line of the legend as HTML."""
    return re.sub(r"\*([\w ]+)\*", r"<em>\1</em>", re.sub(r"`([\w.]+)`", r"<code>\1</code>", html.escape(text)))
