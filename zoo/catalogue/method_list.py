"""The list of methods that zoo-plugins prints: in full as JSON, one line per method, or drawn for a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from zoo.catalogue import families
from zoo.catalogue.cards import card_of
from zoo.catalogue.describe import default
from zoo.catalogue.families import Family
from zoo.catalogue.status import PluginStatus
from zoo.config.values import describe
from zoo.errors import ZooError, nearest
from zoo.plugins.finder import MethodEntry
from zoo.plugins.loader import load_method
from zoo.plugins.resources import card_file, gin_file, source_file
from zoo.plugins.settings import Setting, settings_of
from zoo.slots import SLOTS, TITLES
from zoo.system.foreign_text import one_line, printable

COLUMNS = ("id", "slot", "family", "parameters", "distribution", "version", "what it does", "state")


class Row(NamedTuple):
    """A method as the list shows it."""

    entry: MethodEntry
    family: Family
    phrase: str
    formula: str
    adds: int | None  # parameters at size `base`
    problem: str | None

    @property
    def state(self) -> str:
        return f"broken: {self.problem.splitlines()[0]}" if self.problem else "ok"

    def mentions(self, word: str) -> bool:
        texts = (self.entry.id, self.phrase, self.formula, *self.family)
        return any(word.casefold() in text.casefold() for text in texts)


def rows(states: Sequence[PluginStatus]) -> list[Row]:
    """One row per method, by slot, then by family in the order of the first id, then by id."""
    family_of = families.families(tuple(state.entry for state in states))
    listed = []
    for state in states:
        card = card_of(state.entry)
        formula = card.formula if card else ""
        phrase = families.phrase(state.entry)
        listed.append(Row(state.entry, family_of[state.entry], phrase, formula, state.adds, state.problem))
    first = {family: number for number, family in reversed(list(enumerate(row.family for row in listed)))}
    return sorted(listed, key=lambda row: (SLOTS.index(row.entry.slot), first[row.family], row.entry.id))


def filtered(rows: Sequence[Row], slot: str | None, family: str | None, word: str | None) -> list[Row]:
    """The rows of a slot, of a family, that mention a word; each only if it is given."""
    _known("slot", slot, list(SLOTS))
    _known("family", family, sorted({row.family.name for row in rows}))
    return [
        row
        for row in rows
        if slot in (None, row.entry.slot) and family in (None, row.family.name) and (not word or row.mentions(word))
    ]


def search(rows: Sequence[Row], words: Sequence[str]) -> list[Row]:
    """The rows that mention every word, in their cards too: first those with all of them in id or phrase."""
    ranked = []
    for row in rows:
        short = f"{row.entry.id} {row.phrase}".casefold()
        file = card_file(row.entry)
        text = file.read_text("utf-8", errors="replace").casefold() if file else ""
        if all(row.mentions(word) or word.casefold() in text for word in words):
            ranked.append((sum(word.casefold() not in short for word in words), row))
    return [row for _, row in sorted(ranked, key=lambda each: each[0])]


def _known(kind: str, name: str | None, names: Sequence[str]) -> None:
    if name is not None and name not in names:
        raise ZooError(f"there is no {kind} {name}{nearest(name, names)}; there are {', '.join(names) or 'none'}")


# --- JSON


def as_dict(row: Row) -> dict[str, Any]:
    """All that is known of a method; its settings need its code, so this imports it."""
    entry = row.entry
    files = {"module": source_file(entry), "gin_file": gin_file(entry), "card": card_file(entry)}
    loaded = None if row.problem else load_method(entry)
    factory = loaded.factory if loaded else None
    return {
        "id": entry.id,
        "name": entry.name,
        "slot": entry.slot,
        "family": row.family.name,
        "family_title": row.family.title,
        "phrase": row.phrase,
        "formula": row.formula,
        "distribution": entry.distribution,
        "version": entry.version,
        "entry_point": entry.value,
        **{name: _path(file) for name, file in files.items()},
        "parameters_at_base": row.adds,
        "settings": None if factory is None else [_setting(setting) for setting in settings_of(factory)],
        "problem": row.problem,
    }


def _path(file: Path | None) -> str | None:
    return None if file is None else str(file.resolve())


def _setting(setting: Setting) -> dict[str, str]:
    return {"name": setting.name, "type": describe(setting.annotation), "default": default(setting)}


# --- one line per method


def lines(rows: Sequence[Row]) -> list[str]:
    """A head and one line per method, in columns."""
    cells = [COLUMNS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _cells(row: Row) -> tuple[str, ...]:
    entry = row.entry
    adds = "-" if row.adds is None else f"{row.adds:+,}"
    phrase = row.phrase or "-"
    cells = (entry.id, entry.slot, row.family.name, adds, entry.distribution, entry.version, phrase, row.state)
    return tuple(map(one_line, cells))


# --- for a terminal


def draw(rows: Sequence[Row]) -> None:
    """Print the rows under their slots and families, within the width of the terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for text, style in drawn(rows, shutil.get_terminal_size().columns):
        console.print(Text(text, style=style, no_wrap=True, overflow="ignore"), crop=False, soft_wrap=True)


def drawn(rows: Sequence[Row], width: int) -> list[tuple[str, str]]:
    """The lines with their styles; words are broken only where one is longer than the line."""
    styled: list[tuple[str, str]] = []
    for slot, of_slot in groupby(rows, key=lambda row: row.entry.slot):
        styled += [("", "")] * bool(styled) + _wrapped(f"{slot}: {TITLES[slot]}", width, "", "bold")
        for family, of_family in groupby(of_slot, key=lambda row: row.family):
            styled += [("", ""), *_wrapped(f"{family.name} — {family.title}", width, "  ", "bold")]
            styled += _methods(list(of_family), width)
    return styled


def _methods(rows: Sequence[Row], width: int) -> list[tuple[str, str]]:
    longest = max(len(row.entry.id) for row in rows)
    styled = []
    for row in rows:
        text, style = (row.state, "red") if row.problem else (row.phrase, "")
        styled += _wrapped(f"{row.entry.id.ljust(longest)}  {text}", width, "    ", style, hang=longest + 2)
    return styled


def _wrapped(text: str, width: int, indent: str, style: str, hang: int = 4) -> list[tuple[str, str]]:
    wide = max(width, len(indent) + hang + 20)
    behind = indent + " " * hang
    lines = textwrap.wrap(
        printable(text), wide, initial_indent=indent, subsequent_indent=behind, break_on_hyphens=False
    )
    return [(line, style) for line in lines]
