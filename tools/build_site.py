"""Build the documentation as a site, with search, from the pages of the repository; a page with a broken link fails.

tools/run python tools/build_site.py             # into build/site
tools/run python tools/build_site.py --into DIR  # elsewhere

Needs the extra `docs`. The site asks nobody for anything: no fonts, no scripts but its own. So a diagram in Mermaid, whose
script would come from elsewhere, stays as its text. Pages can be read from the disk; for the search they must be served:

python -m http.server --bind 127.0.0.1 --directory build/site
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "RESULTS.md", "CHANGELOG.md", "CONTRIBUTING.md")
# The pages in the order of the menu; one that is not here yet, or not listed, is no mistake.
MENU: dict[str, tuple[str, ...]] = {
    "Use": ("python", "tour", "data", "recipe", "settings", "evaluation", "hub", "scaling"),
    "Methods": ("methods/README", "writing-a-method", "causality"),
    "Judge": ("statistics", "ladders"),
    "Inside": ("architecture", "glossary", "performance", "log"),
}
TITLES = {"methods/README": "All methods", "tour": "A tour (notebook)"}


STYLE = "wide.css"  # tables and commands of these pages are 120 characters wide, and a name in a table is one word
SEPARATOR = r"""[\s\-,:!=\[\]()"'`/@]+|\.(?!\d)|&[lg]t;"""  # of words: the parts of model.start_from are found, too
CSS = """\
.md-grid { max-width: 84rem; }
.md-typeset td code { overflow-wrap: normal; word-break: normal; }
"""


def gather(folder: Path) -> None:
    """Lay the pages out as in the repository, so that their links lead to each other."""
    (folder / STYLE).write_text(CSS, "utf-8")
    for name in PAGES:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "docs", folder / "docs")
    (folder / "plugins" / "cards").mkdir(parents=True)
    for card in (ROOT / "plugins" / "cards").glob("*.md"):
        shutil.copy(card, folder / "plugins" / "cards" / card.name)
    for notebook in (folder / "docs").glob("*.ipynb"):
        notebook.with_suffix(".md").write_text(notebook_page(notebook), "utf-8")


def notebook_page(notebook: Path) -> str:
    """A notebook as a page: its text, and its code as it stands."""
    parts = []
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join([*parts, f"The notebook itself: [{notebook.name}]({notebook.name}).\n"])


def menu(folder: Path) -> list[Any]:
    """The menu: the pages that are there, those that MENU does not know at its end."""
    there = {str(file.relative_to(folder / "docs").with_suffix("")) for file in (folder / "docs").rglob("*.md")}
    listed = {name for names in MENU.values() for name in names}
    sections: list[Any] = [{"Home": "README.md"}]
    for title, names in MENU.items():
        sections.append({title: [_entry(name) for name in names if name in there]})
    others = sorted(name for name in there - listed if "/" not in name)
    results = [{"Results": "RESULTS.md"}] if (folder / "RESULTS.md").is_file() else []
    rest = [{"Changes": "CHANGELOG.md"}, {"Contributing": "CONTRIBUTING.md"}]
    return [*sections, *results, {"More": [*(_entry(name) for name in others), *rest]}]


def _entry(name: str) -> Any:
    file = f"docs/{name}.md"
    return {TITLES[name]: file} if name in TITLES else file


def build(into: Path) -> list[str]:
    """Build the site into a folder; what is wrong with it, a line each."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    complaints = Complaints()
    logging.getLogger("mkdocs").addHandler(complaints)
    with tempfile.TemporaryDirectory() as name:
        source, settings = Path(name, "pages"), Path(name, "mkdocs.yml")
        source.mkdir()
        gather(source)
        settings.write_text("site_name: zoo\n", "utf-8")
        config = load_config(
            str(settings),
            docs_dir=str(source),
            site_dir=str(into.resolve()),
            site_description="Does this change to the transformer block really help?",
            use_directory_urls=False,  # so that it can be read from a disk, too
            nav=menu(source),
            not_in_nav="/plugins/cards/*\n/docs/*/*\n",  # which other pages lead to
            theme={
                "name": "material",
                "font": False,
                "features": ["navigation.sections", "navigation.top", "content.code.copy", "search.suggest", "search.highlight"],
                "palette": [
                    {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "indigo",
                     "toggle": {"icon": "material/weather-night", "name": "dark"}},
                    {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "indigo",
                     "toggle": {"icon": "material/weather-sunny", "name": "light"}},
                ],
            },
            plugins={"material/search": {"separator": SEPARATOR}},
            extra_css=[STYLE],
            markdown_extensions=["tables", "fenced_code", {"toc": {"permalink": True}}, "pymdownx.highlight",
                                 "pymdownx.superfences", "sane_lists"],
            validation={"links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"},
                        "nav": {"not_found": "warn", "omitted_files": "warn"}},
        )  # fmt: skip
        build_site(config)
    logging.getLogger("mkdocs").removeHandler(complaints)
    return complaints.lines


class Complaints(logging.Handler):
    """The warnings of a build."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "site", metavar="DIR", help="where the site goes")
    into = parser.parse_args(arguments).into
    try:
        complaints = build(into)
    except ModuleNotFoundError as error:
        print(f"the site needs {error.name}: pip install 'transformer-zoo[docs]'", file=sys.stderr)
        return 2
    for line in complaints:
        print(line, file=sys.stderr)
    print(f"{into / 'index.html'}" if not complaints else f"{len(complaints)} things are wrong with the pages")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
