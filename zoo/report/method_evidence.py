"""All that a report has on one method, gathered from ladders and suites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from zoo.bench.store import Result
from zoo.report.arm_results import ArmResults
from zoo.report.findings import Findings
from zoo.report.ladder_results import LadderFindings, LadderRow
from zoo.report.standings import Standing, by_name
from zoo.report.verdicts import Comparison


class Curve(NamedTuple):
    """Runs of one arm that are drawn as one line."""

    label: str
    match: str  # "method", or how the baseline was matched
    runs: Sequence[Result]


class Climb(NamedTuple):
    """A method on a ladder."""

    ladder: LadderFindings
    row: LadderRow


class MethodEvidence(NamedTuple):
    """One method: its rows of the first screen, its ladders, its comparisons, and the arms of its sizes."""

    name: str
    standings: Sequence[Standing]
    climbs: Sequence[Climb]
    comparisons: Sequence[Comparison]
    arms: Mapping[str, ArmResults]  # of the report, by id

    def arms_of(self, standing: Standing) -> list[ArmResults]:
        """The method's arms in one host, the smallest size first."""
        return [self.arms[at.arm] for at in standing.sizes if at.arm in self.arms]


def method_evidence(report: Findings, standings: Iterable[Standing]) -> list[MethodEvidence]:
    """What there is on every method of these rows, in their order."""
    arms = {arm.id: arm for arm in report.arms}
    named = by_name(standings)
    comparisons: dict[str, list[Comparison]] = {}
    for c in report.comparisons:
        if c.name in named:
            comparisons.setdefault(c.name, []).append(c)
    climbs: dict[str, list[Climb]] = {}
    for ladder in report.ladders:
        for row in ladder.rows:
            climbs.setdefault(row.label, []).append(Climb(ladder, row))
    return [
        MethodEvidence(name, of, climbs.get(name, ()), comparisons.get(name, ()), arms) for name, of in named.items()
    ]


def curves(evidence: MethodEvidence, standing: Standing) -> list[list[Curve]]:
    """The runs to draw together, the smallest size first: the method and its baselines."""
    if standing.ladder:
        climb = next(each for each in evidence.climbs if each.ladder.key == standing.key)
        return [
            [
                Curve("the plain block", "none", rung.plain.finished),
                Curve(evidence.name, "method", rung.arms[evidence.name].finished or rung.arms[evidence.name].results),
            ]
            for rung in climb.ladder.rungs
            if evidence.name in rung.arms
        ]
    return [
        _compared([c for c in evidence.comparisons if c.method.id == at.arm])
        for at in standing.sizes
        if any(c.method.id == at.arm for c in evidence.comparisons)
    ]


def _compared(comparisons: Sequence[Comparison]) -> list[Curve]:
    """A method and the baselines of its comparisons."""
    method = comparisons[0].method
    baselines = {c.baseline.id: Curve(f"baseline: {c.match}", c.match, c.baseline.finished) for c in comparisons}
    return [*baselines.values(), Curve(method.first.name, "method", method.finished or method.runs)]
