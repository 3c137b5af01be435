"""Comparisons grouped as tables and figures show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zoo.report.arm_results import ArmResults
from zoo.report.cell_texts import MATCHES
from zoo.report.verdicts import Comparison


def by_family(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    """Comparisons of each family, which answer one question."""
    families: dict[tuple[str, ...], list[Comparison]] = {}
    for c in comparisons:
        families.setdefault(c.family, []).append(c)
    return [families[key] for key in sorted(families, key=order)]


def order(family: tuple[str, ...]) -> tuple[str | int, ...]:
    """A key that sorts families by name, and by their last part, the match, in the order of MATCHES."""
    *rest, match = family
    return (*rest, list(MATCHES).index(match))


def by_method(comparisons: Iterable[Comparison]) -> list[list[Comparison]]:
    """Comparisons of each method's arm."""
    methods: dict[str, list[Comparison]] = {}
    for c in comparisons:
        methods.setdefault(c.method.id, []).append(c)
    return list(methods.values())


def by_plain_arm(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    """Comparisons of each suite, host and plain arm, whatever their baselines match."""
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for c in comparisons:
        groups.setdefault(c.family[:-1], []).append(c)
    return [groups[key] for key in sorted(groups)]


def methods_of(comparisons: Sequence[Comparison]) -> list[ArmResults]:
    """The methods that are compared, each once."""
    return [of[0].method for of in by_method(comparisons)]
