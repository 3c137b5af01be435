"""Quantities that depend on the input stand in files as a mean and quantiles, each under a name of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

QUANTILE = re.compile(r"(.+)_(q\d\d)")
MEAN = "_mean"


class Spread(NamedTuple):
    """The names of a quantity's mean and quantiles, the lowest first: gate_mean; gate_q05, gate_q25, …"""

    mean: str
    quantiles: tuple[str, ...]


def spreads(names: Iterable[str]) -> dict[str, Spread]:
    """The quantities among these names that have a mean and at least two quantiles: gate → its names."""
    quantiles: dict[str, list[str]] = {}
    known = set(names)
    for name in sorted(known):
        if match := QUANTILE.fullmatch(name):
            quantiles.setdefault(match[1], []).append(name)
    return {
        base: Spread(base + MEAN, tuple(names))
        for base, names in quantiles.items()
        if base + MEAN in known and len(names) > 1
    }
