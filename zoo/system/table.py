"""A table of text: as Markdown, as HTML, and on a terminal."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from zoo.system.foreign_text import is_plain, markdown, one_line

HTML = re.compile("[&<>\"']")  # what HTML would not take as text


class Table(NamedTuple):
    """Rows of text under a head; the first column names the row."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    brief: tuple[str, ...] = ()  # the columns to show where there is no room for all
    links: Mapping[str, str] = MappingProxyType({})  # the first cell of a row → where it leads

    @classmethod
    def of(cls, title: str, rows: Sequence[Mapping[str, str]], brief: tuple[str, ...] = ()) -> Table:
        """A table of rows that name their columns, all alike."""
        head = tuple(rows[0]) if rows else brief
        # Most cells of a large report are the same few texts, in memory once.
        return cls(title, head, tuple(tuple(sys.intern(row[name]) for name in head) for row in rows), brief)

    @property
    def width(self) -> int:
        """The width of the table as it is drawn on a terminal."""
        longest = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        return sum(longest) + 3 * len(longest) + 1

    def shortened(self) -> Table:
        """The table with its brief columns alone."""
        columns = [self.head.index(name) for name in self.brief]
        rows = tuple(tuple(row[i] for i in columns) for row in self.rows)
        return self._replace(head=self.brief, rows=rows, brief=())

    def markdown(self, level: int = 2) -> str:
        """The table in Markdown, under a heading. Names in it may be anyone's: they bring no HTML and no further columns."""
        heading = [f"{'#' * level} {markdown(self.title)}", ""] if self.title else []
        lines = [*heading, "| " + " | ".join(self.head) + " |", "|" + "---|" * len(self.head)]
        return "\n".join([*lines, *(self._markdown_row(row) for row in self.rows)]) + "\n"

    def _markdown_row(self, row: tuple[str, ...]) -> str:
        if is_plain("".join(row)) and row[0] not in self.links:  # almost every row, and there are a hundred thousand
            return "| " + " | ".join(row) + " |"
        first, link = markdown(row[0]), self.links.get(row[0], "")
        return "| " + " | ".join([f"[{first}]({link})" if link else first, *map(markdown, row[1:])]) + " |"

    def html(self, style: str = "") -> str:
        """The table in HTML, without its title; `style` names a class of its own."""

        def cells(row: Sequence[str], tag: str) -> str:
            escaped = list(map(html.escape, row)) if HTML.search("".join(row)) else row
            if tag == "td" and (link := self.links.get(row[0], "")):
                escaped = [f'<a href="{html.escape(link)}">{escaped[0]}</a>', *escaped[1:]]
            return f"<tr><{tag}>" + f"</{tag}><{tag}>".join(escaped) + f"</{tag}></tr>"

        body = "".join(cells(row, "td") for row in self.rows)
        opened = f'<table class="{style}">' if style else "<table>"
        return f"{opened}<thead>{cells(self.head, 'th')}</thead><tbody>{body}</tbody></table>"


def counted(number: int, thing: str) -> str:
    """A number and its thing, in the plural where it takes one: 1 claim, 2 claims."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def show(tables: Sequence[Table]) -> None:
    """Print tables: drawn on a terminal, plain Markdown elsewhere."""
    if not sys.stdout.isatty():
        print("\n".join(table.markdown() for table in tables))
        return
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    console = Console()
    for table in tables:
        fits = table.width <= console.width or not table.brief
        shown = table if fits else table.shortened()
        drawn = Drawn(
            title=Text(one_line(shown.title)),
            title_justify="left",
            caption=None if fits else "more columns where there is more room",
        )
        for name in shown.head:
            drawn.add_column(name, overflow="fold", no_wrap=name == shown.head[0])
        for row in shown.rows:
            drawn.add_row(*(Text(one_line(cell)) for cell in row))
        console.print(drawn)
