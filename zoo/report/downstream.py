"""What methods do on tasks beyond their corpus, against their baselines: the outcomes that zoo-eval left in the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zoo.errors import ZooError
from zoo.evaluation.outcomes import Outcome
from zoo.evaluation.pairing import paired_outcomes
from zoo.report.arm_results import ArmResults
from zoo.report.cell_texts import MATCHES, interval_text, number_text, p_value_text, where
from zoo.report.verdicts import Comparison
from zoo.statistics.difference import Difference
from zoo.system.table import Table


class Downstream(NamedTuple):
    """One figure of a task: a method less one of its baselines."""

    comparison: Comparison
    task: str
    items: int
    measure: str
    better: str  # lower or higher
    means: tuple[float, float]  # of method and baseline, over the seeds that are paired
    difference: Difference

    @property
    def verdict(self) -> str:
        """In a word, by the 95 % interval of this question alone."""
        if not self.difference.known or self.difference.low <= 0 <= self.difference.high:
            return "open"
        return "better" if (self.difference.mean < 0) == (self.better == "lower") else "worse"


def downstream(comparisons: Sequence[Comparison], outcomes: Iterable[Outcome]) -> list[Downstream]:
    """Every figure of every task that a method and its baseline were both evaluated on."""
    of_run: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        of_run.setdefault(outcome.run, []).append(outcome)
    if not of_run:
        return []
    return [each for c in comparisons for each in _of_comparison(c, of_run)]


def _of_comparison(c: Comparison, of_run: dict[str, list[Outcome]]) -> list[Downstream]:
    ours, theirs = (_by_task(arm, of_run) for arm in (c.method, c.baseline))
    rows = []
    for identity, one in ours.items():
        other = theirs.get(identity)
        for name, measure in one[0].measures.items() if other else ():
            assert other is not None
            try:
                difference = paired_outcomes(one, other, name)
            except ZooError:  # per token, of two tokenizers, or no seed in common
                continue
            common = {each.seed for each in one} & {each.seed for each in other}
            means = tuple(
                sum(each.measures[name].figure for each in side if each.seed in common) / max(1, len(common))
                for side in (one, other)
            )
            rows.append(
                Downstream(
                    comparison=c,
                    task=one[0].task,
                    items=one[0].items,
                    measure=name,
                    better=measure.better,
                    means=(means[0], means[1]),
                    difference=difference,
                )
            )
    return rows


def _by_task(arm: ArmResults, of_run: dict[str, list[Outcome]]) -> dict[str, list[Outcome]]:
    """The outcomes of an arm's runs by task."""
    tasks: dict[str, list[Outcome]] = {}
    for run in arm.runs:
        for outcome in of_run.get(run.key, ()):
            tasks.setdefault(outcome.identity, []).append(outcome)
    return tasks


def downstream_tables(rows: Sequence[Downstream]) -> list[Table]:
    """The table of tasks, if a method was evaluated on any."""
    cells = [
        {
            "method": each.comparison.name,
            "task": each.task,
            "figure": f"{each.measure} ({each.better} is better)",
            "against": MATCHES[each.comparison.match],
            "where": where(each.comparison),
            "items": f"{each.items:,}",
            "n": str(each.difference.n),
            "method's": number_text(each.means[0], ".4f"),
            "baseline's": number_text(each.means[1], ".4f"),
            "difference": number_text(each.difference.mean, "+.4f"),
            "95 %": interval_text(each.difference.low, each.difference.high),
            "p": p_value_text(each.difference.p),
            "outcome": each.verdict,
        }
        for each in sorted(
            rows, key=lambda each: (each.task, each.measure, each.comparison.match, each.comparison.name)
        )
    ]
    brief = ("method", "task", "figure", "n", "difference", "95 %", "outcome")
    title = "Downstream: tasks of zoo-eval, paired over items and seeds"
    return [Table.of(title, cells, brief)] if cells else []
