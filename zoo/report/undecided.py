"""Which methods of a bench need more seeds: those whose verdict is open and could still be decided."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zoo.bench.store import Result
from zoo.bench.suite_notes import SuiteNotes
from zoo.report.verdict_words import OPEN
from zoo.report.verdicts import Comparison, compare
from zoo.statistics.looks import FUTILE, SEEDS, conditional_power, look_at, normal_score, planned_looks


def undecided_methods(results: Sequence[Result], notes: SuiteNotes, methods: Collection[str]) -> set[str]:
    """The arms among these methods of which some comparison is open and not futile."""
    return {c.method.id for c in compare(results, notes) if c.method.id in methods and needs_seeds(c, notes)}


def needs_seeds(c: Comparison, notes: SuiteNotes) -> bool:
    """Whether more seeds may decide a comparison: open, not at its last look, and not futile.

    Futile: the chance to end beyond the last look's bound, should the difference be what it looks like, is below 10 %.
    """
    if c.verdict != OPEN:
        return False
    looks = planned_looks(notes.looks.get(c.suite, SEEDS))
    look, last = look_at(c.difference.n, looks), looks[-1]
    if look is last:
        return False
    if not c.difference.known:
        return True
    bound = normal_score(c.own_level / c.levels.different * last.level)  # of this question, among all of its family
    return conditional_power(normal_score(c.difference.p), look.information, bound) >= FUTILE
