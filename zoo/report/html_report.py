"""The report in HTML: one file with everything in it, which needs no network and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator, Sequence
from importlib import resources

from zoo.report.beside_loss import COLUMNS, beside_loss_table
from zoo.report.chart_svg import chart_svg
from zoo.report.conditions import conditions
from zoo.report.findings import Findings
from zoo.report.html_first_screen import first_screen, remarks_section, text
from zoo.report.legend import BASIS, legend
from zoo.report.method_pages import MethodPage, Part, method_pages
from zoo.report.overview import controls_table
from zoo.report.redefined import redefined_text
from zoo.report.remarks import how_sure
from zoo.report.standings import standings
from zoo.report.tables import tables
from zoo.system.table import Table

TITLE = "Does it help?"


def html_report(report: Findings) -> str:
    """The whole page."""
    return "".join(html_pieces(report))


def html_pieces(report: Findings) -> Iterator[str]:
    """The page, piece by piece: the first screen, the long tables, then a section per method, shown when a link opens it."""
    rows = standings(report)
    pages = method_pages(report, rows)
    links = {page.name: f"#{anchor(page)}" for page in pages}
    style, script = _file("page.css"), _file("page.js")
    yield f'{_head(style, script)}<body><div class="overview"><h1 id="top">{TITLE}</h1>'
    said = how_sure(report)
    yield first_screen(rows, links, said)
    yield remarks_section(said)
    yield _beside_loss(beside_loss_table(report, rows, links))
    for sentence in filter(None, (conditions(report), redefined_text(report.redefined))):
        yield f"<p>{text(sentence)}</p>"
    yield from map(_table, map(controls_table, report.ladders))
    yield f"<h2>What the words mean</h2><details><summary>columns and verdicts</summary>{_legend(report)}</details>"
    yield "<h2>All tables</h2>"
    yield from map(_table, tables(report, learned=True))
    yield "</div>"
    yield from map(_section, pages)
    yield f"<script>{script}</script></body></html>\n"


def anchor(page: MethodPage) -> str:
    """Where a link finds a method's section."""
    return f"method-{page.slug}"


def _file(name: str) -> str:
    return resources.files("zoo.report").joinpath(name).read_text("utf-8")


def _head(style: str, script: str) -> str:
    """The head; its policy lets no script run but ours, and nothing be fetched."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{TITLE}</title><style>{style}</style></head>"
    )


def _legend(report: Findings) -> str:
    items = "".join(f"<dt>{text(name)}</dt><dd>{_emphasised(words)}</dd>" for name, words in legend(report))
    return f'<p>{text(BASIS)}</p><dl class="words">{items}</dl>'


def _emphasised(words: str) -> str:
    """A line of the legend as HTML."""
    return re.sub(r"\*([\w ,]+)\*", r"<em>\1</em>", re.sub(r"`([\w.-]+)`", r"<code>\1</code>", html.escape(words)))


def _table(table: Table) -> str:
    """A long table, folded."""
    rows = f"<small>{len(table.rows):,} rows</small>" if table.rows else "<small>empty</small>"
    return f'<details><summary>{text(table.title)} {rows}</summary><div class="scroll">{table.html()}</div></details>'


def _beside_loss(table: Table | None) -> str:
    """The second table, in sight."""
    if table is None:
        return ""
    note = COLUMNS.replace("**", "")
    return (
        f'<h2>{text(table.title)}</h2><div class="scroll">{table.html("beside")}</div><p class="note">{text(note)}</p>'
    )


def _section(page: MethodPage) -> str:
    """The page of a method: shown when a link leads there, with or without scripts."""
    phrase = f"<p>{text(page.phrase)}</p>" if page.phrase else ""
    return (
        f'<section class="method" id="{anchor(page)}"><p><a href="#top">← all methods</a></p><h2>{text(page.name)}</h2>{phrase}'
        f"{''.join(map(_part, page.parts))}</section>"
    )


def _part(part: Part) -> str:
    paragraphs = "".join(f"<p>{text(each)}</p>" for each in part.paragraphs)
    shown: Sequence[str] = [f'<div class="scroll">{each.html()}</div>' for each in part.tables]
    charts = "".join(map(chart_svg, part.charts))
    drawn = f'<div class="charts">{charts}</div>' if charts else ""
    return f"<h3>{text(part.heading)}</h3>{paragraphs}{drawn}{''.join(shown)}"
