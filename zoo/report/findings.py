"""What the results of a store say, as data: comparisons, arms and twins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zoo.bench.store import Result
from zoo.bench.suite_notes import NO_NOTES, SuiteNotes
from zoo.report.arm_results import ArmResults, arms
from zoo.report.downstream import Downstream, downstream
from zoo.report.ladder_results import LadderFindings, ladder_findings
from zoo.report.redefined import counted_results
from zoo.report.twins import Twins, twins_among
from zoo.report.verdicts import Comparison, compare_arms
from zoo.system.memory import collection_paused


@dataclass(frozen=True, eq=False)
class Findings:
    """What the results of a store say."""

    comparisons: list[Comparison]
    arms: list[ArmResults]
    twins: list[Twins]
    ladders: tuple[LadderFindings, ...] = ()
    redefined: tuple[str, ...] = ()  # methods whose results were left out, as their definitions have changed
    downstream: tuple[Downstream, ...] = ()  # on tasks beyond the corpus
    unjudged: tuple[
        Result, ...
    ] = ()  # runs that no arm is judged by: they chose its learning rate, or newer ones replace them
    earlier: Findings | None = None  # what an earlier store said, to compare with

    @classmethod
    def of(cls, results: Sequence[Result], notes: SuiteNotes = NO_NOTES) -> Findings:
        """What these results say, without the results of methods that were redefined since."""
        with collection_paused():
            return cls._of(results, notes)

    @classmethod
    def _of(cls, results: Sequence[Result], notes: SuiteNotes) -> Findings:
        counting, redefined = counted_results(results)
        by_id = arms(counting, notes)
        comparisons = compare_arms(by_id, notes)
        judged = {id(run) for arm in by_id.values() for run in arm.runs}
        return cls(
            comparisons=comparisons,
            arms=list(by_id.values()),
            twins=twins_among(by_id.values(), notes),
            ladders=tuple(ladder_findings(counting, notes.ladder_arms, notes.predictions, notes.costs)),
            redefined=redefined,
            downstream=tuple(downstream(comparisons, notes.outcomes)),
            unjudged=tuple(run for run in counting if id(run) not in judged),
        )

    @property
    def margins(self) -> dict[str, dict[str, float]]:
        """What the verdicts were judged by: suite → the plain model's arm → the smallest difference that matters."""
        margins: dict[str, dict[str, float]] = {}
        for c in self.comparisons:
            margins.setdefault(c.suite, {})[c.method.plain_arm] = c.margin
        return margins

    def only(self, ids: set[str]) -> Findings:
        """What the results say of these arms."""
        names = {arm.first.name for arm in self.arms if arm.id in ids}
        return replace(
            self,
            comparisons=[c for c in self.comparisons if c.method.id in ids],
            arms=[arm for arm in self.arms if arm.id in ids],
            downstream=tuple(each for each in self.downstream if each.comparison.method.id in ids),
            unjudged=tuple(run for run in self.unjudged if run.arm in ids),
            twins=[pair for pair in self.twins if {pair.first, pair.second} <= names],
        )

    def against(self, earlier: Findings) -> Findings:
        """These findings beside those of an earlier store."""
        return replace(self, earlier=earlier)
