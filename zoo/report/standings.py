"""What is known of every method in every host, over all sizes: the rows of the report's first screen, as data."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from zoo.bench.ladder_notes import PLAIN
from zoo.bench.step_costs import Ratio
from zoo.bench.store import Result
from zoo.report.arm_results import ArmResults
from zoo.report.findings import Findings
from zoo.report.ladder_results import ArmAtRung, LadderFindings, LadderRow, RungResults, Runs
from zoo.report.verdict_words import HURTS, ORDER, VOID, word_of
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


class Rates(NamedTuple):
    """The learning rates that a method was given the choice of at one size, as multiples of the size's own."""

    chosen: float
    tried: frozenset[float] = frozenset()
    plain: frozenset[float] = frozenset()  # that the plain block was given the choice of

    @property
    def at_edge(self) -> bool:
        """Whether the best rate is the lowest or the highest of several: a rate beyond it may be better."""
        return len(self.tried) > 1 and self.chosen in (min(self.tried), max(self.tried))

    @property
    def fewer(self) -> bool:
        """Whether the plain block was given rates that the method was not."""
        return bool(self.tried) and len(self.plain) > 1 and not self.plain <= self.tried


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
    rates: Rates
    in_time: Effect = UNKNOWN  # κ_time of a ladder's rung


class Cost(NamedTuple):
    """What a method costs beside the plain block, at the largest size it was run at."""

    parameters: float  # as ratios
    flops: float
    time: Ratio | None  # of a training step, measured in turns with the plain block's


class Standing(NamedTuple):
    """What is known of one method in one host, under one optimiser."""

    name: str
    host: str
    optimizer: str  # empty in old stores
    source: str  # the ladder, or the suite
    key: str  # of the ladder, which its name and host need not tell from others; empty in a suite
    ladder: bool
    role: str  # of a ladder's arm; "method" in a suite
    verdict: str
    effect: Effect  # κ of a ladder; the difference at the largest size of a suite
    in_time: Effect  # κ_time
    sizes: tuple[AtSize, ...]  # the smallest first
    cost: Cost
    in_data: Effect = UNKNOWN  # κ_data
    own_noise: bool = False  # of a ladder: whether its runs scatter more than those of the others, at some rung

    @property
    def word(self) -> str:
        """The verdict without its rung."""
        return word_of(self.verdict)

    @property
    def by_its_flops(self) -> bool:
        """Whether it hurts although its loss is lower than the plain block's at every size: its FLOPs outweigh that."""
        return self.ladder and self.word == HURTS and all(at.difference < 0 for at in self.sizes)

    @property
    def far(self) -> bool:
        """Whether κ is beyond e or below 1/e: a difference that is not small beside an e-fold of compute."""
        return self.ladder and not 1 / math.e <= self.effect.value <= math.e and not math.isnan(self.effect.value)

    @property
    def at_edge(self) -> bool:
        """Whether its learning rate is at the edge of those tried, at some size."""
        return any(at.rates.at_edge for at in self.sizes)

    @property
    def fewer_rates(self) -> bool:
        """Whether it was given fewer learning rates than the plain block, at some size."""
        return any(at.rates.fewer for at in self.sizes)

    @property
    def gain(self) -> float:
        """How much it helps, whichever the unit: larger is better; NaN where nothing is known."""
        return math.log(self.effect.value) if self.ladder and self.effect.value > 0 else -self.effect.value


# A command asks for them once per page; those of a large store take a while.
@functools.lru_cache(maxsize=1)
def standings(report: Findings) -> list[Standing]:
    """A row per method, host and optimiser, the best first, controls last: of suites, what no ladder has judged."""
    by_arm = {arm.id: arm for arm in report.arms}
    of_ladders = [each for ladder in report.ladders for each in _of_ladder(ladder, by_arm)]
    judged = {(each.name, each.host, each.optimizer) for each in of_ladders}
    rungs = {at.arm for each in of_ladders for at in each.sizes}
    others = [c for c in report.comparisons if c.match == "none" and c.method.id not in rungs]
    of_suites = _of_suites(c for c in others if _who(c) not in judged)
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
            optimizer=optimizer_of(present[-1].arms[row.label].results[0]),
            source=ladder.name,
            key=ladder.key,
            ladder=True,
            role=row.role,
            verdict=row.verdict,
            effect=_multiplier(row.compute.log) if row.compute else UNKNOWN,
            in_time=_multiplier(row.time.log) if row.time else UNKNOWN,
            sizes=tuple(_at_rung(ladder, row, rung, at.get(rung.number), by_arm) for rung in present),
            cost=_ladder_cost(row, present[-1], by_arm),
            in_data=_multiplier(row.data.log) if row.data else UNKNOWN,
            own_noise=any(row.label in rung.own_noise for rung in present),
        )


def _at_rung(
    ladder: LadderFindings, row: LadderRow, rung: RungResults, at: ArmAtRung | None, by_arm: Mapping[str, ArmResults]
) -> AtSize:
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
        rates=_rates(runs, rung.plain, by_arm),
        in_time=_multiplier(at.time.log) if at and at.time else UNKNOWN,
    )


def _rates(runs: Runs, plain: Runs, by_arm: Mapping[str, ArmResults]) -> Rates:
    """The rates of an arm of a ladder; the plain block's own controls have none to choose, the harmful one no right to all."""
    if runs.noted.role in PLAIN:
        return Rates(runs.noted.factor)
    ours, theirs = (by_arm[id].factors if id in by_arm else () for id in (runs.noted.arm, plain.noted.arm))
    return Rates(runs.noted.factor, frozenset(ours), frozenset(() if runs.noted.role == "harm" else theirs))


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
    """A row per method, host and optimiser; its verdict is that of the largest plain block it was compared with."""
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for c in comparisons:
        groups.setdefault(_who(c), []).append(c)
    for (name, host, optimizer), of in groups.items():
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
            optimizer=optimizer,
            source=last.suite,
            key="",
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
        rates=Rates(c.method.first.lr_factor, frozenset(c.method.factors), frozenset(c.baseline.factors)),
    )


def _who(c: Comparison) -> tuple[str, str, str]:
    """The method of a comparison, its host and its optimiser."""
    return c.name, c.method.first.host, optimizer_of(c.method.first)


def optimizer_of(run: Result) -> str:
    """The name of a run's optimiser; empty where the store does not say."""
    return run.settings.get("train.optimizer", "").strip("'\"")


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
