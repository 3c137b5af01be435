"""One method through the whole kit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

import torch

from zoo.errors import ZooError, nearest
from zoo.system.global_state import contained
from zoo.testing import cost as costs
from zoo.testing.method_under_test import Subject, subject as find
from zoo.testing.property_list import PROPERTIES, Property, examine, in_words
from zoo.testing.report import Cost, NotTested, Report, Result

FIRST = "builds"  # without which nothing else means anything
BEFORE = next(property for property in PROPERTIES if property.name == "contained")  # why it may not build
CAUSED = {"pure": "modified by an inplace operation", "contained": "does not require grad"}  # torch's words
COST = "cost"
CLAIM = "what it costs beside the baseline"


def names(thorough: bool = False) -> tuple[str, ...]:
    return (*(property.name for property in _selected(None, thorough)), COST)


def check(
    method: str | Callable[..., Any],
    slot: str | None,
    settings: Mapping[str, Any],
    only: Collection[str] | None,
    thorough: bool,
) -> Report:
    """Examine the properties one after the other; what means nothing after a failure before it is left out."""
    with contained(), _one_thread():
        subject = find(method, slot, settings)
        results: list[Result] = []
        left: list[NotTested] = []
        selected = _selected(only, thorough)
        for property in selected:
            result = examine(subject, property)
            if cause := _cause(result, results):
                left.append(NotTested(property.name, cause))
                continue
            results.append(result)
            if property.name == FIRST and result.status == "failed":
                return _ended(subject, result, [each.name for each in selected[1:]], only is None)
        cost: Cost | None = None
        if only is None or COST in only:
            began = time.perf_counter()
            cost, status, detail = _cost(subject)
            result = Result(COST, CLAIM, status, detail, seconds=time.perf_counter() - began)
            if cause := _cause(result, results):
                left.append(NotTested(COST, cause))
            else:
                results.append(result)
    return Report(subject.id, subject.slot, subject.source, tuple(results), cost, tuple(left))


def _ended(subject: Subject, result: Result, rest: list[str], whole: bool) -> Report:
    """The report of a method whose model does not even answer, with what may be the cause before that."""
    cause = examine(subject, BEFORE) if whole else None
    results = (cause, result) if cause and cause.status == "failed" else (result,)
    names = [name for name in [*rest, *([COST] if whole else [])] if name not in {each.property for each in results}]
    left = tuple(NotTested(name, FIRST) for name in names)
    return Report(subject.id, subject.slot, subject.source, results, None, left)


def _cause(result: Result, before: list[Result]) -> str | None:
    """The property found broken before that explains this failure."""
    if result.status == "failed":
        for each in before:
            if each.status == "failed" and each.property in CAUSED and CAUSED[each.property] in result.detail:
                return each.property
    return None


def _cost(subject: Subject) -> tuple[Cost | None, Literal["ok", "failed"], str]:
    try:
        cost = costs.cost(subject)
    except Exception as error:
        return None, "failed", in_words(error)
    return cost, "ok", costs.describe(cost)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """The models are tiny: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _selected(only: Collection[str] | None, thorough: bool) -> list[Property]:
    known = [property.name for property in PROPERTIES] + [COST]
    for name in only or ():
        if name not in known:
            raise ZooError(f"there is no property {name}{nearest(name, known)}; there are {', '.join(known)}")
    if only is not None:
        return [property for property in PROPERTIES if property.name in only]
    return [property for property in PROPERTIES if thorough or not property.thorough]
