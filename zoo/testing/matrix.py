"""Which methods can be combined: every pair of slots, asked by building a small model of each pair."""

from __future__ import annotations

import string
import textwrap
import typing
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from zoo import plugins
from zoo.attention import Attention
from zoo.block import Block
from zoo.errors import ConfigError
from zoo.extension import Extension, Layer
from zoo.model import check_composition
from zoo.plugins import SLOTS
from zoo.testing.subject import KINDS, Factory, seeded


class Method(NamedTuple):
    """A method in a matrix: with its default settings, or at another site than its usual one."""

    slot: str
    id: str
    factory: Factory
    site: str | None = None

    @property
    def name(self) -> str:
        return f"{self.id} at {self.site}" if self.site else self.id


class Cell(NamedTuple):
    """Two methods of different slots, and why they cannot be combined, if they cannot."""

    row: Method
    column: Method
    refusal: str | None


class Group(NamedTuple):
    """Methods of one slot that go with the same others."""

    slot: str
    methods: tuple[Method, ...]


def methods(registry: plugins.Registry | None = None) -> tuple[list[Method], list[str]]:
    """Every usable method, at each of its sites; and a line for each that cannot be used."""
    found: list[Method] = []
    usable, broken = (registry or plugins.registry()).usable()
    for entry, factory, *_ in usable:
        assert factory is not None
        usual = Method(entry.slot, entry.id, factory)
        for method in (
            usual,
            *(usual._replace(factory=_at(factory, site), site=site) for site in _other_sites(factory)),
        ):
            try:
                _build(method)
            except Exception as error:  # a stranger's: the others are still worth showing
                broken.append(f"{method.name} of {entry.source} cannot be built: {type(error).__name__}: {error}")
            else:
                found.append(method)
    return found, broken


def _other_sites(factory: Factory) -> list[str]:
    for setting in plugins.settings(factory):
        if setting.name == "site" and typing.get_origin(setting.annotation) is typing.Literal:
            return [site for site in typing.get_args(setting.annotation) if site != setting.default]
    return []


def _at(factory: Factory, site: str) -> Factory:
    return lambda layer: factory(layer, site=site)


def refusal(*chosen: Method) -> str | None:
    """Why these methods cannot be combined; None if they can."""
    return _refusal({method.slot: _build(method) for method in chosen})


def cells(among: Iterable[Method]) -> list[Cell]:
    """Every pair of methods of different slots. Each method is built once: there are thousands of pairs."""
    by_slot: dict[str, list[tuple[Method, Extension]]] = {slot: [] for slot in SLOTS}
    for method in among:
        by_slot[method.slot].append((method, _build(method)))
    return [
        Cell(row, column, _refusal({row.slot: one, column.slot: other}))
        for first, second in combinations(SLOTS, 2)
        for row, one in by_slot[first]
        for column, other in by_slot[second]
    ]


LAYER = Layer(1, 2, 16, 24, 2, 2, 8, 8, False, 1e-5)  # the upper of two


def _build(method: Method) -> Extension:
    with seeded():
        return method.factory(LAYER)


def _refusal(parts: Mapping[str, Any]) -> str | None:
    whole: dict[str, Any] = {slot: parts.get(slot) or kind() for slot, kind in KINDS.items()}
    attention = Attention(LAYER, whole["score_mixing"], qk_norm=False, dropout=0.0, rope_theta=10000.0)
    block = Block(LAYER, whole["residual"], attention, whole["temporal_mixing"], 0.0)
    try:
        check_composition(block, "score_mixing" in parts)
    except ConfigError as error:
        return str(error)
    return None


def groups(of: Iterable[Cell]) -> list[Group]:
    """Methods together that get the same answer with every other method."""
    answers: dict[Method, list[tuple[Method, bool]]] = {}
    for cell in of:
        answers.setdefault(cell.row, []).append((cell.column, cell.refusal is None))
        answers.setdefault(cell.column, []).append((cell.row, cell.refusal is None))
    alike: dict[tuple[str, tuple[tuple[Method, bool], ...]], list[Method]] = {}
    for method, given in answers.items():
        alike.setdefault((method.slot, tuple(given)), []).append(method)
    found = [Group(slot, tuple(members)) for (slot, _), members in alike.items()]
    return sorted(found, key=lambda group: SLOTS.index(group.slot))


def lines(of: list[Cell], width: int = 120) -> list[str]:
    """The matrix as text: groups, then groups against groups, then why some are refused."""
    found = groups(of)
    labels = dict(zip(found, string.ascii_uppercase, strict=False))
    member = {method: group for group in found for method in group.methods}
    table: dict[tuple[Group, Group], Cell] = {}
    for cell in of:
        table.setdefault((member[cell.row], member[cell.column]), cell)
    refused = [cell for cell in table.values() if cell.refusal]

    def answer(row: Group, column: Group) -> str:
        cell = table.get((row, column))
        return "" if cell is None else f"refused ({refused.index(cell) + 1})" if cell.refusal else "works"

    text = []
    for group in found:
        text += textwrap.wrap(f"{labels[group]}  {group.slot}: {_names(group)}", width, subsequent_indent="   ")
    rows = [group for group in found if group.slot != SLOTS[-1]]
    columns = [group for group in found if group.slot != SLOTS[0]]
    cellwidth = len("refused (99)")
    text += ["", "   ".join([" ", *(labels[group].ljust(cellwidth) for group in columns)]).rstrip()]
    for row in rows:
        text.append("   ".join([labels[row], *(answer(row, column).ljust(cellwidth) for column in columns)]).rstrip())
    for number, cell in enumerate(refused, start=1):
        text += ["", f"({number}) for example {cell.row.name} with {cell.column.name}: {cell.refusal}"]
    return text


def _names(group: Group) -> str:
    """The members, those of one site together."""
    parts = []
    for site in dict.fromkeys(method.site for method in group.methods):
        ids = [method.id for method in group.methods if method.site == site]
        parts.append((f"at {site}: " if site else "") + ", ".join(ids))
    return "; ".join(parts)
