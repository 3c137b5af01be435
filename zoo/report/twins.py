"""Twins: two methods that are equal by definition. They share their start, so they prove the arithmetic, not the noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zoo.bench.store import Result
from zoo.bench.suite_notes import SuiteNotes
from zoo.report.arm_results import ArmResults, arms, common_split, fair
from zoo.report.family_models import FamilyModel
from zoo.statistics.difference import Difference


class Twins(NamedTuple):
    """Two methods that are the same function, and the difference of their losses in one host."""

    first: str
    second: str
    host: str
    difference: Difference  # of these two alone


def twins(results: Sequence[Result], notes: SuiteNotes) -> list[Twins]:
    """The differences between methods that are the same function."""
    return twins_among(arms(results, notes).values(), notes)


def twins_among(arms: Iterable[ArmResults], notes: SuiteNotes) -> list[Twins]:
    """The differences between those of these arms that are the same function, change the same model and share a host."""
    by_name: dict[str, list[ArmResults]] = {}
    for arm in arms:
        if arm.first.match == "method":
            by_name.setdefault(arm.first.name, []).append(arm)
    pairs = []
    for one, other in notes.twins:
        seconds: dict[tuple[str, str], list[ArmResults]] = {}
        for b in by_name.get(other, ()):
            seconds.setdefault((b.plain_arm, b.first.host), []).append(b)
        for a in by_name.get(one, ()):
            for b in seconds.get((a.plain_arm, a.first.host), ()):
                if pair := fair(a, b):
                    alone = FamilyModel(pair, common_split(*pair)).difference(*pair)
                    pairs.append(Twins(first=one, second=other, host=a.first.host, difference=alone))
    return pairs
