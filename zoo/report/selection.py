"""Which part of a large report is drawn."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from zoo.report.findings import Findings
from zoo.report.grouping import by_family, by_method, by_plain_arm
from zoo.report.verdicts import Comparison

T = TypeVar("T")
ALL_DRAWN = 80  # methods: a report of more draws only a part
CURVES, PANELS = 2, 6  # of a large report: figures of learning curves, and the methods in each
FORESTS, ROWS = 4, 30  # of a large report: figures of differences, and the methods in each


def largest_difference(comparisons: Iterable[Comparison]) -> float:
    """The largest difference among these, whichever way."""
    return max((abs(c.difference.mean) for c in comparisons if not math.isnan(c.difference.mean)), default=-math.inf)


# What the pages, figures and TensorBoard of one report ask for again and again; a large store takes a while to group.
of_one_report = functools.lru_cache(maxsize=1)


@of_one_report
def families_of(report: Findings) -> list[list[Comparison]]:
    """The comparisons of each family."""
    return by_family(report.comparisons)


@of_one_report
def all_drawn(report: Findings) -> bool:
    """Whether there are so few methods that everything is drawn."""
    return len({c.method.id for c in report.comparisons}) <= ALL_DRAWN


@of_one_report
def differences_drawn(report: Findings) -> list[list[Comparison]]:
    """The comparisons of each figure of differences: of many, the tables and methods that differ most."""
    families = families_of(report)
    if all_drawn(report):
        return families
    return [_most(of, ROWS, lambda c: largest_difference([c])) for of in _most(families, FORESTS, largest_difference)]


@of_one_report
def curves_drawn(report: Findings) -> list[list[Comparison]]:
    """The comparisons of each figure of learning curves: of many, the methods that differ most."""
    groups = by_plain_arm(report.comparisons)
    if all_drawn(report):
        return groups
    chosen = (_most(by_method(of), PANELS, largest_difference) for of in _most(groups, CURVES, largest_difference))
    return [[c for method in of for c in method] for of in chosen]


def _most(some: Sequence[T], count: int, size: Callable[[T], float]) -> list[T]:
    """The `count` largest, in the order in which they were."""
    largest = sorted(range(len(some)), key=lambda i: -size(some[i]))[:count]
    return [some[i] for i in sorted(largest)]


def left_out(report: Findings) -> str:
    """A sentence on what the figures do not show; empty where they show everything."""
    if all_drawn(report):
        return ""
    drawn = sum(len(by_method(of)) for of in curves_drawn(report))
    methods = len(by_method(report.comparisons))
    return (
        f"Not everything is drawn: learning curves and learned values of {drawn} of {methods:,} methods, differences of"
        f" {len(differences_drawn(report))} of {len(families_of(report)):,} tables, those with the largest"
        " differences; learning curves against tokens alone. The other tables are whole."
    )
