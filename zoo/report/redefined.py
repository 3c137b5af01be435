"""Results of a method whose definition has changed since do not count: the card says since when."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zoo.bench.store import Result
from zoo.report.claims import card_named


class Counted(NamedTuple):
    """The results that count, and the names of what was left out."""

    results: list[Result]
    redefined: tuple[str, ...]


def counted_results(results: Sequence[Result]) -> Counted:
    """The results of methods that are still defined as they were when these were run."""
    counting, left_out = [], dict[str, None]()
    for result in results:
        if str(result.stamps.get("ended", "")) < _redefined(result.name):  # times of day in ISO 8601 sort as texts
            left_out[result.name] = None
        else:
            counting.append(result)
    return Counted(counting, tuple(sorted(left_out)))


@functools.cache
def _redefined(name: str) -> str:
    """The last day on which a method, or one of a combination, was redefined; empty: never, as far as cards say."""
    cards = (card_named(part.partition("(")[0]) for part in name.split("+"))
    return max((card.redefined for card in cards if card), default="")


def redefined_text(names: Iterable[str]) -> str:
    """What is left out, in a sentence; empty where nothing is."""
    listed = ", ".join(names)
    return f"Left out, as their definitions have changed since they were run: {listed}." if listed else ""
