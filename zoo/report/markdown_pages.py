"""Pages of a report in Markdown: the first screen, and the page of a method with its charts as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zoo.report.chart_svg import chart_svg
from zoo.report.charts import Chart
from zoo.report.method_pages import MethodPage, Part
from zoo.report.overview import Remark, answers, names_text, overview_table, parts
from zoo.report.standings import Standing
from zoo.system.foreign_text import file_name, markdown
from zoo.system.table import Table

FIGURES = "figures"
HEADING = "How sure"  # of the remarks in full
MARK = "<!-- Written by zoo-report: do not edit. -->"


class WrittenPage(NamedTuple):
    """A page in Markdown, and the figures that it shows, by their names in the folder of figures."""

    text: str
    figures: Mapping[str, str]


def first_screen(
    standings: Sequence[Standing], figures: Sequence[str], links: Mapping[str, str], remarks: Sequence[Remark]
) -> list[str]:
    """Paragraphs: for each unit what helps and what does not, in words that are explained; a figure; a table.

    `remarks` stand below the first words, in short; `remarks_section` has them in full.
    `figures` are the paths of the overview's figures, one for each part, as far as there are any.
    """
    lines: list[str] = []
    for number, of in enumerate(parts(standings)):
        for answer in answers(of):
            names = markdown(names_text(answer.standings))
            lines.append(f"- **{answer.word}** ({len(answer.standings)}): {names}. *{answer.meaning}*")
        if number == 0 and remarks:
            lines += ["", f"Before you rely on it ([in full](#{HEADING.lower().replace(' ', '-')})):", ""]
            lines += [f"- {markdown(remark.short)}" for remark in remarks]
        lines += ["", f"![{_caption(of)}]({figures[number]})", ""] if number < len(figures) else [""]
        lines += [overview_table(of, links).markdown()]
    return lines or ["There is nothing to compare yet.", ""]


def remarks_section(remarks: Sequence[Remark]) -> list[str]:
    """The remarks in full, under their heading."""
    return [f"## {HEADING}", "", *(line for remark in remarks for line in (markdown(remark.text), ""))]


def _caption(some: Sequence[Standing]) -> str:
    return "κ of every method with its interval" if some[0].ladder else "the difference of every method at one size"


def method_markdown(page: MethodPage, links: Sequence[str] = ()) -> WrittenPage:
    """The page of one method; `links` come under its title."""
    lines = [MARK, f"# {markdown(page.name)}", ""]
    lines += [f"{markdown(page.phrase)}", ""] if page.phrase else []
    lines += [" · ".join(links), ""] if links else []
    figures: dict[str, str] = {}
    for number, part in enumerate(page.parts, start=1):
        drawn = {file_name(f"{page.slug}-{number}-{chart.name}") + ".svg": chart for chart in part.charts}
        figures |= {name: chart_svg(chart) + "\n" for name, chart in drawn.items()}
        lines += _part(part, drawn)
    return WrittenPage("\n".join(lines), figures)


def _part(part: Part, charts: Mapping[str, Chart]) -> list[str]:
    lines = [f"## {markdown(part.heading)}", ""]
    for paragraph in part.paragraphs:
        lines += [markdown(paragraph), ""]
    for name, chart in charts.items():
        lines += [f"![{markdown(chart.title)}]({FIGURES}/{name})", ""]
    return lines + [table.markdown(level=3) for table in map(_untitled, part.tables)]


def _untitled(table: Table) -> Table:
    return table if table.head[0] else table._replace(head=("of", *table.head[1:]))
