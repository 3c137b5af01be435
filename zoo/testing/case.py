"""The small models and inputs that a method is looked at with, and the smallest of them in which something breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

VOCAB = 19
MAX_LENGTH = 12


@dataclass(frozen=True)
class Case:
    """One model and one batch."""

    depth: int = 2
    length: int = 6
    batch: int = 2
    parallel: bool = False
    training: bool = False
    dropout: float = 0.0
    dtype: str = "float64"
    width: int = 16
    heads: int = 2
    kv_heads: int = 2
    head_dim: int = 8
    qk_norm: bool = False
    settings: tuple[tuple[str, Any], ...] = ()  # of the method

    def __str__(self) -> str:
        size = [f"depth {self.depth}", f"length {self.length}", f"batch {self.batch}"]
        kind = ["parallel" if self.parallel else "sequential", "training" if self.training else "evaluation"]
        usual = Case()
        odd = [f"{name} {getattr(self, name)}" for name in ODD if getattr(self, name) != getattr(usual, name)]
        return ", ".join([*size, *kind, *odd, *(f"{name} = {value!r}" for name, value in self.settings)])

    def but(self, **changes: Any) -> Case:
        return replace(self, **changes)


# Told only where they are not the usual.
ODD = ("dropout", "dtype", "width", "heads", "kv_heads", "head_dim", "qk_norm")


class Told(str):
    """What a probe answers, if anything: words, in one of three kinds."""


class Broken(Told):
    """The property does not hold, and how."""


class Note(Told):
    """It holds; this is worth knowing."""


class Skipped(Told):
    """There is nothing to look at, and why."""


def hosts(*cases: Case) -> tuple[Case, ...]:
    """Each case in both hosts."""
    return tuple(case.but(parallel=parallel) for case in cases for parallel in (False, True))


def smaller(case: Case, along: tuple[str, ...]) -> Iterator[Case]:
    """Cases of the same kind that are smaller along the named sizes, from the smallest on."""
    sizes = [range(1, getattr(case, name) + 1) if name in along else [getattr(case, name)] for name in SIZES]
    for values in product(*sizes):
        candidate = case.but(**dict(zip(SIZES, values, strict=True)))
        if candidate == case:
            return
        yield candidate


SIZES = ("depth", "length", "batch")


def smallest(
    case: Case, broken: Broken, along: tuple[str, ...], probe: Callable[[Case], Told | None]
) -> tuple[Case, Broken]:
    """The smallest case in which the probe finds something broken, given one in which it does."""
    for candidate in smaller(case, along):
        told = probe(candidate)
        if isinstance(told, Broken):
            return candidate, told
    return case, broken
