"""Evaluation is deterministic, stateless, and leaves its inputs unchanged."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from zoo.extension import SLOT_CLASSES, Extension
from zoo.testing.cases import Broken, Case, Outcome, hosts
from zoo.testing.method_under_test import EXACT, Subject, difference, look, seeded, tokens

DETERMINISTIC = hosts(Case(1, 3, 1), Case(2, 6, 2))


def deterministic(subject: Subject, case: Case) -> Outcome | None:
    """In evaluation mode the same input gives the same output, and the global random state is left alone."""
    built, inputs = subject.build(case), tokens(case)
    first = look(built, inputs)
    if difference(look(built, inputs), first) > 0:
        return Broken("a second pass over the same input answers otherwise: something is kept between passes")
    if difference(look(built, inputs, seed=1), first) > 0:
        return Broken("with another random seed an evaluation answers otherwise: something is drawn in every pass")
    for name, state in RANDOM_STATES.items():
        with seeded():
            before = state()
            with torch.no_grad():
                built(inputs)
            if state() != before:
                return Broken(f"an evaluation draws from {name}: it changes everything random that comes after it")
    return None


def _numpy_state() -> Any:
    import numpy

    return repr(numpy.random.get_state())


RANDOM_STATES: dict[str, Callable[[], Any]] = {
    "torch's global random state": lambda: torch.get_rng_state().tolist(),
    "Python's global random state": random.getstate,
    "numpy's global random state": _numpy_state,
}


# --- what the method is given, watched

CALLS = {  # slot → the calls of a method in it → the names of their arguments, as its base class has them
    slot: {
        name: tuple(inspect.signature(call).parameters)[1:]
        for owner in base.__mro__
        if issubclass(owner, Extension) and owner is not Extension
        for name, call in vars(owner).items()
        if inspect.isfunction(call) and not name.startswith("_")
    }
    for slot, base in SLOT_CLASSES.items()
}
Watch = Callable[[str, Callable[..., Any], tuple[Any, ...]], Any]


@contextlib.contextmanager
def watched(extensions: list[Extension], slot: str, watch: Watch) -> Iterator[None]:
    """Every call of the method, and of what it has inside, goes through `watch(name, call, arguments)`."""
    kind = SLOT_CLASSES[slot]
    extensions = [part for extension in extensions for part in extension.modules() if isinstance(part, kind)]
    for extension in extensions:
        for name in CALLS[slot]:
            call = getattr(extension, name)
            extension.__dict__[name] = _watching(watch, name, call)
    try:
        yield
    finally:
        for extension in extensions:
            for name in CALLS[slot]:
                del extension.__dict__[name]


def _watching(watch: Watch, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    order = inspect.signature(call)

    def called(*given: Any, **named: Any) -> Any:
        bound = order.bind(*given, **named)
        return watch(name, functools.partial(call, **bound.kwargs), bound.args)

    return called


def tensors(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor inside what a method is given, with where it is."""
    if isinstance(value, Tensor):
        yield path, value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            # What is kept of the layers below is read as history.ffn and the like, the ids as history.tokens.
            inside = {"below": path, "ids": f"{path}.tokens"}.get(field.name, f"{path}.{field.name}")
            yield from tensors(getattr(value, field.name), inside)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, part in zip(value._fields, value, strict=True):
            yield from tensors(part, f"{path}.{name}")
    elif isinstance(value, (tuple, list)):
        for index, part in enumerate(value):
            yield from tensors(part, f"{path}[{index}]")


PURE = hosts(Case(1, 2, 1), Case(2, 5, 2))


def pure(subject: Subject, case: Case) -> Outcome | None:
    """What the method is given, the history too, is the same after the call."""
    built, inputs = subject.build(case), tokens(case)
    problems: list[str] = []

    def watch(name: str, call: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        labels = CALLS[subject.slot][name]
        parts = [part for label, value in zip(labels, given, strict=False) for part in tensors(value, label)]
        before = [part.clone() for _, part in parts]
        result = call(*given)
        for (label, part), copy in zip(parts, before, strict=True):
            if not torch.equal(part, copy):
                problems.append(f"{name} changes {label} in place, which others still read")
        return result

    with watched(subject.extensions(built), subject.slot, watch):
        look(built, inputs)
    return Broken(problems[0]) if problems else None


LAYOUT = (Case(1, 2, 2), Case(2, 5, 2))


def layout(subject: Subject, case: Case) -> Outcome | None:
    """Tensors that are not contiguous in memory do as well as those that are."""
    built, inputs = subject.build(case), tokens(case)
    plain = look(built, inputs)

    def watch(name: str, call: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        return call(*(_scattered(value) for value in given))

    with watched(subject.extensions(built), subject.slot, watch):
        try:
            scattered = look(built, inputs)
        except RuntimeError as error:
            return Broken(f"a tensor that is not contiguous in memory ends in: {str(error).splitlines()[0]}")
    if difference(scattered, plain) > EXACT:
        return Broken("tensors that are not contiguous in memory give another result")
    return None


def _scattered(value: Any) -> Any:
    """The same numbers, each row of them with a gap behind it."""
    if isinstance(value, Tensor) and value.dim():
        wide = torch.nn.functional.pad(value, (0, 1))
        return wide[..., :-1]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_scattered, value))
    return value
