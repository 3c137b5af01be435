"""Which methods can be combined: every pair of slots, asked by building a small model of each pair."""

from __future__ import annotations

import string
import textwrap
import typing
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

from zoo.errors import ConfigError
from zoo.extension import SLOT_CLASSES, Extension, Layer, attach_name, called
from zoo.model.extensions import check_composition
from zoo.plugins.registry import Registry, installed
from zoo.plugins.settings import settings_of
from zoo.slots import SLOTS
from zoo.system.global_state import WHILE_BUILT, contained
from zoo.testing.cases import VOCAB
from zoo.testing.method_under_test import Factory, seeded


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


def methods(registry: Registry | None = None) -> tuple[list[Method], list[str]]:
    """Every usable method, at each of its sites; and a line for each that cannot be used."""
    buildable: list[Method] = []
    usable, broken = (registry or installed()).usable()
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
                buildable.append(method)
    return buildable, broken


def _other_sites(factory: Factory) -> list[str]:
    for setting in settings_of(factory):
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
    by_slot: dict[str, list[tuple[Method, list[Extension]]]] = {slot: [] for slot in SLOTS}
    for method in among:
        by_slot[method.slot].append((method, _build(method)))
    return [
        Cell(row, column, _refusal({row.slot: one, column.slot: other}))
        for first, second in combinations(SLOTS, 2)
        for row, one in by_slot[first]
        for column, other in by_slot[second]
    ]


LAYERS = [  # enough for a method that stands in some of them only
    Layer(
        index=index,
        num_layers=4,
        width=16,
        ffn_dim=24,
        num_heads=2,
        num_kv_heads=2,
        head_dim=8,
        max_length=8,
        parallel=False,
        norm_eps=1e-5,
        vocab_size=VOCAB,
    )
    for index in range(4)
]


def _build(method: Method) -> list[Extension]:
    """The method in each layer."""
    factory = called(method.id, method.factory)
    with seeded(), contained(WHILE_BUILT):
        built = [factory(layer) for layer in LAYERS]
    for extension in built:
        attach_name(extension, factory)
    return built


def _refusal(parts: Mapping[str, list[Extension]]) -> str | None:
    whole = {slot: parts.get(slot) or [base() for _ in LAYERS] for slot, base in SLOT_CLASSES.items()}
    try:
        check_composition(whole)
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
    grouped = [Group(slot, tuple(members)) for (slot, _), members in alike.items()]
    return sorted(grouped, key=lambda group: SLOTS.index(group.slot))


def lines(of: list[Cell], width: int = 120) -> list[str]:
    """The matrix as text: groups, then groups against groups, then why some are refused."""
    grouped = groups(of)
    labels = dict(zip(grouped, string.ascii_uppercase, strict=False))
    member = {method: group for group in grouped for method in group.methods}
    table: dict[tuple[Group, Group], Cell] = {}
    for cell in of:
        table.setdefault((member[cell.row], member[cell.column]), cell)
    refused = [cell for cell in table.values() if cell.refusal]

    def answer(row: Group, column: Group) -> str:
        cell = table.get((row, column))
        return "" if cell is None else f"refused ({refused.index(cell) + 1})" if cell.refusal else "works"

    text = []
    for group in grouped:
        text += textwrap.wrap(f"{labels[group]}  {group.slot}: {_names(group)}", width, subsequent_indent="   ")
    rows = [group for group in grouped if group.slot != SLOTS[-1]]
    columns = [group for group in grouped if group.slot != SLOTS[0]]
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
