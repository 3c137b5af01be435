"""The small models and inputs that a method is looked at with, and the smallest of them in which something breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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


# Named only where they are not the usual.
ODD = ("dropout", "dtype", "width", "heads", "kv_heads", "head_dim", "qk_norm")


class Outcome(str):
    """What a probe answers, if anything: words, in one of three kinds."""


class Broken(Outcome):
    """The property does not hold, and how."""


class Note(Outcome):
    """It holds; this is worth knowing."""


class Skipped(Outcome):
    """There is nothing to look at, and why."""


def hosts(*cases: Case) -> tuple[Case, ...]:
    """Each case in both hosts."""
    return tuple(case.but(parallel=parallel) for case in cases for parallel in (False, True))


SIZES = ("depth", "length", "batch")


def smallest(
    case: Case, broken: Broken, along: tuple[str, ...], probe: Callable[[Case], Outcome | None]
) -> tuple[Case, Broken]:
    """A small case in which the probe finds something broken, given a case in which it does.

    Each size in turn is made small: all combinations would be too many where sequences are long.
    """
    for name in along:
        for value in _smaller(getattr(case, name)):
            candidate = case.but(**{name: value})
            outcome = probe(candidate)
            if isinstance(outcome, Broken):
                case, broken = candidate, outcome
                break
    return case, broken


def _smaller(size: int) -> list[int]:
    """Every smaller size up to 16, and beyond that those next to a power of two."""
    return [n for n in range(1, size) if n <= 16 or any(k.bit_count() == 1 for k in (n - 1, n, n + 1))]
