"""One method through the whole kit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

import torch

from zoo.errors import ZooError, nearest
from zoo.testing import cost as costs
from zoo.testing.examination import PROPERTIES, Property, examine, in_words
from zoo.testing.report import Cost, Report, Result
from zoo.testing.subject import Subject, subject as find

COST = "cost"
CLAIM = "what it costs beside the baseline"


def names(thorough: bool = False) -> tuple[str, ...]:
    return (*(property.name for property in _wanted(None, thorough)), COST)


def check(
    method: str | Callable[..., Any],
    slot: str | None,
    settings: Mapping[str, Any],
    only: Collection[str] | None,
    thorough: bool,
) -> Report:
    """Examine the properties one after the other; where the method cannot even be built, the rest is left out."""
    subject = find(method, slot, settings)
    results: list[Result] = []
    cost: Cost | None = None
    with _one_thread():
        for property in _wanted(only, thorough):
            results.append(examine(subject, property))
            if results[-1].property == "builds" and not _can_be_built(subject):
                break
        else:
            if only is None or COST in only:
                began = time.perf_counter()
                cost, status, told = _cost(subject)
                results.append(Result(COST, CLAIM, status, told, seconds=time.perf_counter() - began))
    return Report(subject.id, subject.slot, subject.source, tuple(results), cost)


def _cost(subject: Subject) -> tuple[Cost | None, Literal["ok", "failed"], str]:
    try:
        cost = costs.cost(subject)
    except Exception as error:
        return None, "failed", in_words(error)
    return cost, "ok", costs.told(cost)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """The models are tiny: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _wanted(only: Collection[str] | None, thorough: bool) -> list[Property]:
    known = [property.name for property in PROPERTIES] + [COST]
    for name in only or ():
        if name not in known:
            raise ZooError(f"there is no property {name}{nearest(name, known)}; there are {', '.join(known)}")
    if only is not None:
        return [property for property in PROPERTIES if property.name in only]
    return [property for property in PROPERTIES if thorough or not property.thorough]


def _can_be_built(subject: Subject) -> bool:
    try:
        return subject.declared is not None
    except Exception:
        return False
