"""What is known of every method in every host, over all sizes: the rows of the report's first screen, as data."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from zoo.bench.step_costs import Ratio
from zoo.report.arm_results import ArmResults
from zoo.report.findings import Findings
from zoo.report.ladder_results import ArmAtRung, LadderFindings, LadderRow, RungResults
from zoo.report.verdict_words import ORDER, VOID, word_of
from zoo.report.verdicts import Comparison
from zoo.scaling.ladder_verdicts import ladder_verdict
from zoo.scaling.multiplier import Estimate, Multiplier, over_rungs
from zoo.statistics.looks import Levels


class Effect(NamedTuple):
    """κ, or a difference of losses in nats per token, with its 95 % interval; NaN where it is not known."""

    value: float
    low: float
    high: float


UNKNOWN = Effect(math.nan, math.nan, math.nan)


class AtSize(NamedTuple):
    """A method at one size."""

    rung: int  # of a ladder, counted from 1; 0 in a suite
    parameters: int  # of the plain block: without embeddings in a ladder, with them in a suite
    tokens: int
    seeds: int
    loss: float
    plain_loss: float
    difference: float  # in nats per token
    effect: Effect
    verdict: str
    arm: str  # the method's
    plain_arm: str


class Cost(NamedTuple):
    """What a method costs beside the plain block, at the largest size it was run at."""

    parameters: float  # as ratios
    flops: float
    time: Ratio | None  # of a training step, measured in turns with the plain block's


class Standing(NamedTuple):
    """What is known of one method in one host."""

    name: str
    host: str
    source: str  # the ladder, or the suite
    ladder: bool
    role: str  # of a ladder's arm; "method" in a suite
    verdict: str
    effect: Effect  # κ of a ladder; the difference at the largest size of a suite
    in_time: Effect  # κ_time
    sizes: tuple[AtSize, ...]  # the smallest first
    cost: Cost

    @property
    def word(self) -> str:
        """The verdict without its rung."""
        return word_of(self.verdict)

    @property
    def gain(self) -> float:
        """How much it helps, whichever the unit: larger is better; NaN where nothing is known."""
        return math.log(self.effect.value) if self.ladder and self.effect.value > 0 else -self.effect.value


# A command asks for them once per page; those of a large store take a while.
@functools.lru_cache(maxsize=1)
def standings(report: Findings) -> list[Standing]:
    """A row per method and host, the best first, controls last: of ladders, and of suites what no ladder has judged."""
    by_arm = {arm.id: arm for arm in report.arms}
    of_ladders = [each for ladder in report.ladders for each in _of_ladder(ladder, by_arm)]
    judged = {(each.name, each.host) for each in of_ladders}
    rungs = {at.arm for each in of_ladders for at in each.sizes}
    others = [c for c in report.comparisons if c.match == "none" and c.method.id not in rungs]
    of_suites = _of_suites(c for c in others if (c.name, c.method.first.host) not in judged)
    return sorted([*of_ladders, *of_suites], key=_order)


def _order(standing: Standing) -> tuple[bool, bool, bool, bool, float, str]:
    gain = standing.gain
    void = standing.word in VOID
    return not standing.ladder, standing.role != "method", void, math.isnan(gain), -gain, standing.name


def _of_ladder(ladder: LadderFindings, by_arm: Mapping[str, ArmResults]) -> Iterator[Standing]:
    """A row per arm of a ladder."""
    for row in ladder.rows:
        at = {each.rung: each for each in row.rungs}
        present = [rung for rung in ladder.rungs if row.label in rung.arms]
        yield Standing(
            name=row.label,
            host=ladder.host,
            source=ladder.name,
            ladder=True,
            role=row.role,
            verdict=row.verdict,
            effect=_multiplier(row.compute.log) if row.compute else UNKNOWN,
            in_time=_multiplier(row.time.log) if row.time else UNKNOWN,
            sizes=tuple(_at_rung(ladder, row, rung, at.get(rung.number)) for rung in present),
            cost=_ladder_cost(row, present[-1], by_arm),
        )


def _at_rung(ladder: LadderFindings, row: LadderRow, rung: RungResults, at: ArmAtRung | None) -> AtSize:
    """One arm of a ladder at one rung, judged by that rung alone."""
    runs = rung.arms[row.label]
    of_rung = row.verdict if row.verdict.startswith(VOID) else _verdict(at, ladder.margin, row.levels) if at else "open"
    return AtSize(
        rung=rung.number,
        parameters=rung.parameters,
        tokens=rung.tokens,
        seeds=at.n if at else 0,
        loss=at.loss if at else math.nan,
        plain_loss=rung.plain_loss,
        difference=at.difference.value if at else math.nan,
        effect=_multiplier(at.compute.log) if at else UNKNOWN,
        verdict=of_rung,
        arm=runs.noted.arm,
        plain_arm=rung.plain.noted.arm,
    )


def _verdict(at: ArmAtRung, margin: float, levels: Levels) -> str:
    """What one rung says of an arm."""
    alone: Sequence[Multiplier] = [at.compute]
    time = over_rungs([at.time]) if at.time else None
    return ladder_verdict(over_rungs(alone), time, at.compute.x, margin, levels=levels)


def _ladder_cost(row: LadderRow, rung: RungResults, by_arm: Mapping[str, ArmResults]) -> Cost:
    runs, plain = rung.arms[row.label], rung.plain
    ours, theirs = runs.results[0], plain.results[0]
    arm = by_arm.get(runs.noted.arm)
    return Cost(ours.parameters / theirs.parameters, ours.flops / theirs.flops, _time(arm, plain.noted.arm))


def _time(arm: ArmResults | None, plain_arm: str) -> Ratio | None:
    """The time of a training step beside the plain block's, where it was measured."""
    return arm.cost.time_ratio if arm and arm.cost and arm.cost.plain == plain_arm else None


def _of_suites(comparisons: Iterable[Comparison]) -> Iterator[Standing]:
    """A row per method and host; its verdict is that of the largest plain block it was compared with."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for c in comparisons:
        groups.setdefault((c.name, c.method.first.host), []).append(c)
    for (name, host), of in groups.items():
        if len(of) > 1:
            of.sort(key=lambda c: c.baseline.spent.flops * c.baseline.spent.trained)
        last = of[-1]
        ours, theirs = last.method.first, last.baseline.first
        cost = Cost(
            ours.parameters / theirs.parameters, ours.flops / theirs.flops, _time(last.method, last.baseline.id)
        )
        yield Standing(
            name=name,
            host=host,
            source=last.suite,
            ladder=False,
            role="method",
            verdict=last.verdict,
            effect=_difference(last),
            in_time=UNKNOWN,
            sizes=tuple(_compared(c) for c in of),
            cost=cost,
        )


def _compared(c: Comparison) -> AtSize:
    ours, theirs = c.means()
    spent = c.baseline.spent
    return AtSize(
        rung=0,
        parameters=spent.parameters,
        tokens=spent.trained,
        seeds=c.difference.n,
        loss=ours,
        plain_loss=theirs,
        difference=c.difference.mean,
        effect=_difference(c),
        verdict=c.verdict,
        arm=c.method.id,
        plain_arm=c.baseline.id,
    )


def _difference(c: Comparison) -> Effect:
    return Effect(c.difference.mean, *c.difference.interval())


def _multiplier(log: Estimate) -> Effect:
    """κ with its interval, from its logarithm; infinite where a float cannot hold it."""
    return Effect(*(math.exp(each) if each < 700 else math.inf for each in (log.value, *log.interval())))


def by_word(some: Sequence[Standing]) -> dict[str, list[Standing]]:
    """The methods of each word, from the best news to the worst; controls are none."""
    methods = [each for each in some if each.role == "method"]
    groups = {word: [each for each in methods if each.word == word] for word in ORDER}
    return {word: of for word, of in groups.items() if of}


def by_name(some: Iterable[Standing]) -> dict[str, list[Standing]]:
    """The standings of each method, in all hosts; of the plain block's controls none."""
    methods: dict[str, list[Standing]] = {}
    for each in some:
        if each.role not in ("other seeds", "more tokens"):
            methods.setdefault(each.name, []).append(each)
    return methods
