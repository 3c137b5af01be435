"""RESULTS.md and the pages behind it, as files: one per method, one of all tables, and the archive."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from zoo.errors import ZooError
from zoo.report.archive_page import archive_page
from zoo.report.figure_list import overview_figures
from zoo.report.figures import svg
from zoo.report.findings import Findings
from zoo.report.legend import introduction
from zoo.report.markdown_pages import FIGURES, MARK, method_markdown
from zoo.report.method_pages import MethodPage, method_pages
from zoo.report.results_page import results_page
from zoo.report.standings import Standing, standings
from zoo.report.tables import tables
from zoo.system.files import write_atomically

PAGES = Path("docs", "results")  # beside RESULTS.md
TABLES, ARCHIVE = "all-tables.md", "archive.md"
EXPLAINED = {
    "docs/questions.md": "[Questions](docs/questions.md): what the lab notes asked, and what these results say to it",
    "docs/log.md": "[Log](docs/log.md): what was tried, by date, and what came of it",
    "docs/ladders.md": "[Ladders](docs/ladders.md): κ, the controls, and the words of its verdicts",
    "docs/statistics.md": "[Statistics](docs/statistics.md): intervals, and the words of a verdict at one size",
    "docs/methods/README.md": "[The methods](docs/methods/README.md#names): what `v1_…`, `wr_…` and the other names stand for",
}
WRITTEN = "Written by `zoo-report STORE --results FILE`, from the runs that `zoo-bench` left in the store"
SHOWN = re.compile(rf"\]\(((?:docs/results/)?{FIGURES}/[^)/]+\.svg)\)")


def write_results(report: Findings | None, archive: Findings | None, file: Path, cards: Path | None = None) -> None:
    """Write the page and those behind it; what an earlier report wrote there and this one does not is taken away."""
    folder = file.parent / PAGES
    paths = sorted(cards.glob("*.md")) if cards else ()
    links = {path.stem: Path(os.path.relpath(path, folder)).as_posix() for path in paths}
    texts = result_files(report, archive, file.name, links, explanations(file.parent))
    if not file.parent.is_dir():
        raise ZooError(f"--results {file}: there is no folder {file.parent}")
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    earlier = [path for path in (file, *folder.glob("*.md")) if _is_ours(path)]
    stale = {path.parent / figure for path in earlier for figure in SHOWN.findall(path.read_text("utf-8", "replace"))}
    for path, text in texts.items():
        write_atomically(file.parent / path, text)
    for path in (*earlier, *stale):
        if Path(os.path.relpath(path, file.parent)) not in texts:
            path.unlink(missing_ok=True)


def explanations(root: Path) -> list[str]:
    """The lines on pages that explain more, as far as there are such pages."""
    return [line for page, line in EXPLAINED.items() if (root / page).is_file()]


def _is_ours(page: Path) -> bool:
    """Whether an earlier report wrote this page."""
    return page.is_file() and page.read_text(encoding="utf-8", errors="replace").startswith(MARK)


def result_files(
    report: Findings | None,
    archive: Findings | None,
    name: str,
    cards: Mapping[str, str],
    explained: Sequence[str],
) -> dict[Path, str]:
    """Every file with its text, by its path beside the page of this name.

    `cards` are paths to methods' cards from the folder of pages, `explained` lines on other pages.
    """
    rows = standings(report) if report else []
    pages = method_pages(report, rows) if report else []
    links = {page.name: f"{PAGES.as_posix()}/{page.slug}.md" for page in pages}
    drawn = _overview(rows, "overview")
    more, files = [], dict[Path, str]()
    long_tables = (PAGES / TABLES).as_posix()
    back = os.path.relpath(name, PAGES)
    if report:
        more.append(f"[All tables]({long_tables}): every arm, rung, comparison and cost, with a legend")
        files[PAGES / TABLES] = _all_tables(report, back)
        files |= _method_files(pages, back, cards)
    if archive:
        drawn_archive = _overview(standings(archive), "archive")
        more.append(f"[Archive]({PAGES.as_posix()}/{ARCHIVE}): older results, and why they no longer count")
        figures = [f"{FIGURES}/{each}" for each in drawn_archive]
        files[PAGES / ARCHIVE] = archive_page(archive, back, figures)
        files |= {PAGES / FIGURES / each: text for each, text in drawn_archive.items()}
    files |= {PAGES / FIGURES / each: text for each, text in drawn.items()}
    figures = [(PAGES / FIGURES / each).as_posix() for each in drawn]
    further = [*more, *explained, WRITTEN]
    files[Path(name)] = f"{MARK}\n{results_page(report, rows, figures, links, further, long_tables)}"
    return files


def _overview(rows: Sequence[Standing], name: str) -> dict[str, str]:
    """The figures of the first screen, by file name."""
    return {f"{name}-{each.partition('/')[2]}.svg": svg(figure) + "\n" for each, figure in overview_figures(rows)}


def _all_tables(report: Findings, back: str) -> str:
    shown = [table.markdown() for table in tables(report, learned=True)]
    head = [MARK, "# All tables", "", f"The long tables behind [RESULTS.md]({back}).", "", introduction(report), ""]
    return "\n".join([*head, *shown])


def _method_files(pages: Sequence[MethodPage], back: str, cards: Mapping[str, str]) -> Mapping[Path, str]:
    """The page of every method, and its figures."""
    files: dict[Path, str] = {}
    for page in pages:
        ids = [part.partition("(")[0] for part in page.name.split("+")]
        links = [f"[All results]({back})", *(f"[Card of {id}]({cards[id]})" for id in ids if id in cards)]
        text, figures = method_markdown(page, links)
        files[PAGES / f"{page.slug}.md"] = text
        files |= {PAGES / FIGURES / name: figure for name, figure in figures.items()}
    return files
