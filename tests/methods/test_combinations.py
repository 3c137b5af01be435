"""Residual × score × temporal methods work together, or are refused with a reason.

Each combination is built tiny, trains three steps, and must be causal, decodable and finite. Every day a seeded sample
is walked; all pairs are under the marker `slow`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from itertools import combinations

import pytest
import torch

from zoo.errors import ConfigError
from zoo.extension import Extension, HeadMixing, Residual, TemporalMixing, called, overrides
from zoo.model.sites import in_place_of_attention, mixers_of
from zoo.slots import SLOTS
from zoo.testing import causality
from zoo.testing.cases import Broken, Case
from zoo.testing.combination import examine
from zoo.testing.compatibility import LAYERS, Cell, Method, cells, groups, methods, refusal
from zoo.testing.method_under_test import Subject, assemble

METHODS, BROKEN = methods()  # temporal ones at each of their sites
USUAL = [method for method in METHODS if method.site is None]
PAIRS = [pair for pair in combinations(USUAL, 2) if pair[0].slot != pair[1].slot]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def together(chosen: Sequence[Method]) -> Subject:
    first, *rest = chosen
    others = {method.slot: called(method.id, method.factory) for method in rest}
    return Subject(first.id, first.slot, first.factory, others=others)


def assert_works(chosen: Sequence[Method], parallel: bool) -> None:
    subject, case = together(chosen), Case(2, 4, 2, parallel=parallel)
    names = " with ".join(method.name for method in chosen)
    assert not (problem := examine(subject, case)), f"{names}: {problem}"
    if not all(extension.causal for extension in subject.build(case).extensions()):
        assert isinstance(causality.causal(subject, case), Broken), f"{names}: the leak it declares is not found"


def test_every_method_can_be_used() -> None:
    assert not BROKEN
    assert len(PAIRS) >= 26 * 14 + 26 * 30 + 14 * 30


@pytest.mark.parametrize("part", range(5))
def test_a_sample_of_pairs_works(part: int) -> None:
    for number, pair in enumerate(random.Random(part).sample(PAIRS, 30)):
        if refusal(*pair) is None:
            assert_works(pair, parallel=number % 2 == 1)


@pytest.mark.parametrize("part", range(3))
def test_a_sample_of_triples_works(part: int) -> None:
    draw = random.Random(part)
    by_slot = [among for slot in SLOTS if (among := [method for method in METHODS if method.slot == slot])]
    worked = refused = 0
    while worked < 10:
        triple = [draw.choice(among) for among in by_slot]
        if reason := refusal(*triple):
            refused += 1
            with pytest.raises(ConfigError) as caught:
                together(triple).build(Case())
            assert str(caught.value) == reason
        else:
            assert_works(triple, parallel=worked % 2 == 1)
            worked += 1
    assert refused


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [False, True], ids=["sequential", "parallel"])
@pytest.mark.parametrize("first", [m for m in USUAL if m.slot != SLOTS[-1]], ids=lambda method: method.id)
def test_all_pairs_work(first: Method, parallel: bool) -> None:
    for pair in PAIRS:
        if pair[0] == first and refusal(*pair) is None:
            assert_works(pair, parallel)


@pytest.mark.slow
@pytest.mark.parametrize("first", [m for m in USUAL if m.slot != SLOTS[-1]], ids=lambda method: method.id)
def test_all_pairs_at_other_sites_work_or_are_refused(first: Method) -> None:
    others = [method for method in METHODS if method.site]
    for number, other in enumerate(others):
        if refusal(first, other) is None:
            assert_works([first, other], parallel=number % 2 == 1)


# --- what is refused


@pytest.fixture(scope="module")
def table() -> list[Cell]:
    return cells(METHODS)


def test_the_matrix_says_what_building_says(table: list[Cell]) -> None:
    for cell in random.Random(2).sample(table, 60):
        slots = {method.slot: called(method.id, method.factory) for method in (cell.row, cell.column)}
        try:
            assemble(Case(), slots, fresh=True)
            refused = None
        except ConfigError as error:
            refused = str(error)
        assert refused == cell.refusal
        if refused:  # by the names that users know
            assert cell.row.id in refused and cell.column.id in refused


def test_only_what_makes_no_sense_is_refused(table: list[Cell]) -> None:
    """What needs attention where there is none, and running layers again where their heads are mixed."""
    every = {method for cell in table for method in (cell.row, cell.column)}
    parts = {method: together([method]).declared for method in every}

    def needs_attention(method: Method) -> bool:
        if isinstance(parts[method], Residual) and any(part.separates for part in _in_layers(method)):
            return True
        return isinstance(parts[method], HeadMixing) or bool(parts[method].reads & {"scores", "blocks"})

    def replaces_it(method: Method) -> bool:
        return method.slot == "temporal_mixing" and any(in_place_of_attention(_in_layers(method)))

    def mixes_heads(method: Method) -> bool:
        part = parts[method]
        return isinstance(part, HeadMixing) and (overrides(part, "project") or overrides(part, "output"))

    def unlike_a_layer(method: Method) -> bool:  # for whoever runs layers again
        part = parts[method]
        qkv = isinstance(part, TemporalMixing) and "qkv" in mixers_of(part)
        return mixes_heads(method) or qkv

    for cell in table:
        pairs = [(cell.row, cell.column), (cell.column, cell.row)]
        instead = any(needs_attention(one) and replaces_it(other) for one, other in pairs)
        again = any("blocks" in parts[one].reads and unlike_a_layer(other) for one, other in pairs)
        assert bool(cell.refusal) == (instead or again), (cell.row.name, cell.column.name)


@functools.cache
def _in_layers(method: Method) -> list[Extension]:
    return [called(method.id, method.factory)(layer) for layer in LAYERS]


def test_methods_with_the_same_answers_are_one_group(table: list[Cell]) -> None:
    grouped = groups(table)
    assert sorted(method.name for group in grouped for method in group.methods) == sorted(m.name for m in METHODS)
    assert 3 < len(grouped) < 10
