"""Tables: plain rows take a quick way, which must give what the slow one gives."""

from __future__ import annotations

import html

from zoo.system.foreign_text import markdown
from zoo.system.table import Table

CELLS = ("m", "+0.1 … 0.2", "a|b", "<b>x</b>", "&amp;", "q\"'", "`c`", "two\nlines", "[l](u)")


def test_every_row_is_escaped_whichever_way_it_takes() -> None:
    rows = tuple((cell, "1", other) for cell in CELLS for other in CELLS)
    table = Table("t", ("name", "n", "x"), rows)
    lines = table.markdown().splitlines()[4:]
    assert lines == ["| " + " | ".join(map(markdown, row)) + " |" for row in rows]
    cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    assert "".join(f"<tr>{row}</tr>" for row in cells) in table.html()


def test_a_link_is_a_link() -> None:
    assert "| [m](u.md) | 1 |" in Table("", ("name", "n"), (("m", "1"),), links={"m": "u.md"}).markdown()
