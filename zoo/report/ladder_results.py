"""What the runs of a ladder say: κ of every arm at every rung and over all of them, as data."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from zoo.bench.ladder_notes import PLAIN, LadderArm, Prediction
from zoo.bench.step_costs import StepCost
from zoo.bench.store import Result
from zoo.report.arm_results import Split
from zoo.report.trained import early_loss
from zoo.scaling.gate import Gate
from zoo.scaling.ladder_verdicts import FAR, SINGLE, Trouble, ladder_verdict
from zoo.scaling.multiplier import Estimate, Multiplier, Overall, in_time, multiplier, over_rungs
from zoo.scaling.noise import Noise, noise_by_rung, pooled_noise, wide_arms
from zoo.scaling.plain_curve import Curve, plain_curve
from zoo.statistics.learning import learned_nothing
from zoo.statistics.looks import Levels

REACH_95 = 1.96  # standard errors to each side of a 95 % interval


class Runs(NamedTuple):
    """The runs of one arm at one rung."""

    noted: LadderArm
    results: tuple[Result, ...]  # by seed

    @property
    def finished(self) -> list[Result]:
        return [run for run in self.results if run.status != "diverged"]

    def losses(self, split: Split) -> list[float]:
        values = [run.test_loss if split == "test" else run.valid_loss for run in self.finished]
        return [loss for loss in values if loss is not None and math.isfinite(loss)]


class RungResults(NamedTuple):
    """One rung: its plain block, the noise, and what compute and tokens are worth there."""

    number: int  # from 1
    depth: int
    parameters: int
    tokens: int
    x: float  # ln C of the plain block
    split: Split  # the same at all rungs
    tested: bool  # whether all of its runs have a loss on the test split
    arms: Mapping[str, Runs]  # by label
    noise: Noise  # of the arms together
    own_noise: Mapping[str, Noise]  # of the arms, by label, that scatter more than the others: not in the pool
    plain_loss: float
    slope: float = math.nan  # nats per e-fold of compute
    slope_error: float = math.nan
    data_slope: float = math.nan  # nats per e-fold of tokens, at this size

    @property
    def plain(self) -> Runs:
        """The plain block's runs."""
        return next(runs for runs in self.arms.values() if runs.noted.role == "plain")

    def noise_of(self, runs: Runs) -> Noise:
        """The noise of one arm's runs."""
        return self.own_noise.get(runs.noted.label, self.noise)


class ArmAtRung(NamedTuple):
    """One arm at one rung."""

    rung: int
    n: int
    loss: float
    difference: Estimate
    compute: Multiplier
    time: Multiplier | None  # None: the time was not measured
    data: Multiplier | None  # None: the worth of tokens is not known there


class LadderRow(NamedTuple):
    """What a ladder says of one arm."""

    label: str
    role: str
    rungs: tuple[ArmAtRung, ...]
    compute: Overall | None
    time: Overall | None
    data: Overall | None
    far: Estimate  # ln κ at a hundred times the top rung's compute
    verdict: str
    gate: Gate | None  # None: no looks were planned for it

    @property
    def levels(self) -> Levels:
        """The levels that its verdict is made at."""
        return self.gate.levels if self.gate else SINGLE


class Outcome(NamedTuple):
    """A prediction beside what came of it."""

    prediction: Prediction
    loss: float  # NaN as long as there is none

    @property
    def error(self) -> float:
        """Measured − predicted, in nats per token."""
        return self.loss - self.prediction.loss

    @property
    def inside(self) -> bool:
        """Whether the outcome lies in the predicted interval."""
        return self.prediction.low <= self.loss <= self.prediction.high


class OtherRate(NamedTuple):
    """What a ladder would say, had the plain block of a rung had another learning rate that ties with its own."""

    rung: int
    factor: float
    plain_loss: float
    rows: tuple[LadderRow, ...]


class LadderFindings(NamedTuple):
    """What the results say of one ladder in one host."""

    key: str
    name: str
    host: str
    margin: float
    rungs: tuple[RungResults, ...]
    rows: tuple[LadderRow, ...]
    outcomes: tuple[Outcome, ...]
    other_rates: tuple[OtherRate, ...] = ()


def ladder_findings(
    results: Sequence[Result],
    arms: Mapping[tuple[str, int, str], LadderArm],
    predictions: Mapping[tuple[str, str], Prediction],
    costs: Mapping[str, StepCost],
) -> list[LadderFindings]:
    """What the results say of every ladder that the store noted."""
    ladders: dict[str, list[LadderArm]] = {}
    for noted in arms.values():
        ladders.setdefault(noted.ladder, []).append(noted)
    by_run = {(run.arm, run.seed, run.lr_factor): run for run in results}
    findings = []
    for key, of_ladder in sorted(ladders.items()):
        rungs = _with_slopes(_rungs(of_ladder, by_run))
        if not rungs:
            continue
        margin = of_ladder[-1].margin
        findings.append(
            LadderFindings(
                key=key,
                name=of_ladder[0].name,
                host=of_ladder[0].host,
                margin=margin,
                rungs=rungs,
                rows=tuple(_rows(rungs, costs, margin)),
                outcomes=tuple(_outcomes(rungs, [p for p in predictions.values() if p.ladder == key])),
                other_rates=tuple(_other_rates(of_ladder, rungs[0].split, by_run, costs, margin)),
            )
        )
    return findings


def _other_rates(
    noted: Sequence[LadderArm],
    split: Split,
    by_run: Mapping[tuple[str, int, float], Result],
    costs: Mapping[str, StepCost],
    margin: float,
) -> Iterable[OtherRate]:
    """What the ladder would say at every rate that ties with the plain block's.

    Only where it has as many seeds there as its controls have, with losses on the ladder's split; at its own it may have more.
    """
    for plain in (arm for arm in noted if arm.role == "plain"):
        whole = [arm for arm in noted if arm.depth == plain.depth and arm.role in PLAIN and arm.role != "budget"]
        enough = min(len(arm.seeds) for arm in whole)
        for factor in plain.ties:
            seeds = [seed for seed in plain.seeds if (plain.arm, seed, factor) in by_run]
            if len(seeds) >= enough:
                instead = [replace(arm, factor=factor, seeds=seeds) if arm is plain else arm for arm in noted]
                rungs = _with_slopes(_rungs(instead, by_run))
                for rung in rungs:
                    if rung.depth == plain.depth and rung.split == split:
                        yield OtherRate(rung.number, factor, rung.plain_loss, tuple(_rows(rungs, costs, margin)))


def _rungs(noted: Iterable[LadderArm], by_run: Mapping[tuple[str, int, float], Result]) -> list[RungResults]:
    """The rungs whose plain block has a loss, without the slopes, from the smallest."""
    by_depth: dict[int, dict[str, Runs]] = {}
    for arm in noted:
        runs = [by_run[key] for seed in arm.seeds if (key := (arm.arm, seed, arm.factor)) in by_run]
        if runs:
            by_depth.setdefault(arm.depth, {})[arm.label] = Runs(arm, tuple(runs))
    # Test and validation losses are not points of one curve: until every run has been tested, none of them counts as that.
    tested = {depth: all(map(_tested, of_depth.values())) for depth, of_depth in by_depth.items()}
    split: Split = "test" if all(tested.values()) else "validation"
    pools = {depth: pool for depth in sorted(by_depth) if (pool := _pool(by_depth[depth], split))}
    wide = wide_arms(list(pools.values()))
    rungs: list[RungResults] = []
    for depth, pool in pools.items():
        of_depth = by_depth[depth]
        plain = next(runs for runs in of_depth.values() if runs.noted.role == "plain")
        own = {label: pooled_noise([pool.pop(label)]) for label in wide if label in pool}
        rungs.append(
            RungResults(
                number=len(rungs) + 1,
                depth=depth,
                parameters=plain.noted.parameters,
                tokens=plain.noted.tokens,
                x=math.log(plain.noted.charged),
                split=split,
                tested=tested[depth],
                arms=of_depth,
                noise=pooled_noise(pool.values()),
                own_noise=own,
                plain_loss=statistics.fmean(plain.losses(split)),
            )
        )
    return rungs


def _pool(of_depth: Mapping[str, Runs], split: Split) -> dict[str, list[float]]:
    """The losses of the arms of a rung that say how large its noise is; none without a loss of the plain block."""
    plain = next((runs for runs in of_depth.values() if runs.noted.role == "plain"), None)
    if plain is None or not plain.losses(split):
        return {}
    return {
        label: runs.losses(split)
        for label, runs in of_depth.items()
        if runs.noted.role != "budget" and not _learned_nothing(runs, plain)
    }


def _learned_nothing(runs: Runs, plain: Runs) -> bool:
    """Whether an arm did not train; the plain block is what others are judged by."""
    if runs.noted.role in PLAIN:
        return False
    entropy = runs.results[0].unigram_entropy  # which is of the validation split
    return learned_nothing(runs.losses("validation"), entropy, early_loss(plain.finished))


def _tested(runs: Runs) -> bool:
    return all(run.test_loss is not None for run in runs.finished)


def _with_slopes(rungs: Sequence[RungResults]) -> tuple[RungResults, ...]:
    """The rungs with their noise moderated, and with what compute and tokens are worth."""
    if len(rungs) < 2:
        return ()
    xs = [rung.x for rung in rungs]
    noise = noise_by_rung(xs, [rung.noise for rung in rungs])
    rungs = [rung._replace(noise=each) for each, rung in zip(noise, rungs, strict=True)]
    errors = [rung.noise_of(rung.plain).of_mean(len(rung.plain.losses(rung.split))) for rung in rungs]
    curve = plain_curve(xs, [rung.plain_loss for rung in rungs], errors)
    return tuple(
        rung._replace(
            slope=curve.slope(rung.x),
            slope_error=curve.slope_error(rung.x),
            data_slope=_data_slope(rung),
        )
        for rung in rungs
    )


def _data_slope(rung: RungResults) -> float:
    """−dL/d ln D of the plain block at this size, from its budgets; NaN without three: a line through two is too steep."""
    points = [(math.log(tokens), losses) for tokens, losses in budget_losses(rung).items()]
    if len(points) < 3:
        return math.nan
    errors = [rung.noise.of_mean(len(losses)) for _, losses in points]
    curve: Curve = plain_curve([x for x, _ in points], [statistics.fmean(losses) for _, losses in points], errors)
    return curve.slope(math.log(rung.tokens))


def budget_losses(rung: RungResults) -> dict[int, list[float]]:
    """The losses of the plain block at this size by the tokens it had: of its own budget and of the others."""
    by_tokens: dict[int, list[float]] = {}
    for runs in rung.arms.values():
        if runs.noted.role in ("plain", "budget"):
            for run in runs.finished:
                for tokens, loss in budget_points(run, rung.split):
                    by_tokens.setdefault(tokens, []).append(loss)
    return by_tokens


def budget_points(run: Result, split: Split) -> list[tuple[int, float]]:
    """Tokens and loss at the end of a run, and at the ends of its earlier periods (`wsd_s`) where these are validated.

    Earlier periods have no loss on the test split: beside one they are left out.
    """
    last = run.test_loss if split == "test" else run.valid_loss
    points = [] if last is None or not math.isfinite(last) else [(run.tokens, last)]
    if split == "test":
        return points
    earlier = [(each["tokens"], each["loss"]) for each in run.budgets]
    return [(int(t), x) for t, x in earlier if t is not None and x is not None and t < run.tokens] + points


def _rows(rungs: Sequence[RungResults], costs: Mapping[str, StepCost], margin: float) -> Iterable[LadderRow]:
    """What the ladder says of every arm but the plain block and its budgets, in the order of their notes."""
    labels = dict.fromkeys(label for rung in rungs for label in rung.arms)
    for label in labels:
        present = [rung for rung in rungs if label in rung.arms]
        role = present[0].arms[label].noted.role
        if role in ("plain", "budget"):
            continue
        at = [each for rung in present if (each := _at_rung(rung, rung.arms[label], costs)) is not None]
        reason, top = trouble(present, label), rungs[-1].x
        judged = at if reason is None else []  # where losses cannot decide, no multiplier is made of them
        compute = over_rungs([each.compute for each in judged])
        time = over_rungs([each.time for each in judged if each.time is not None])
        gate = _gate(present, label, judged)
        yield LadderRow(
            label=label,
            role=role,
            rungs=tuple(at),
            compute=compute,
            time=time,
            data=over_rungs([each.data for each in judged if each.data is not None]),
            far=compute.projection(top + FAR) if compute else Estimate(math.nan, math.nan, 0),
            verdict=ladder_verdict(compute, time, top, margin, reason, gate.levels if gate else SINGLE),
            gate=gate,
        )


def _gate(present: Sequence[RungResults], label: str, at: Sequence[ArmAtRung]) -> Gate | None:
    """What is known of an arm at the rungs that its notes plan looks at; None without any."""
    looked_at = {rung.number: looks for rung in present if (looks := rung.arms[label].noted.looks)}
    if not looked_at:
        return None
    small = [each for each in at if each.rung in looked_at]
    return Gate(
        looks=tuple(next(iter(looked_at.values()))),
        seeds=min((each.n for each in small), default=0),
        compute=over_rungs([each.compute for each in small]),
        passed=len(at) > len(small),
    )


def _at_rung(rung: RungResults, runs: Runs, costs: Mapping[str, StepCost]) -> ArmAtRung | None:
    """One arm at one rung; None without any loss."""
    losses, plain = runs.losses(rung.split), rung.plain
    if not losses:
        return None
    n, m = len(losses), len(plain.losses(rung.split))
    noise = rung.noise_of(runs).beside(n, rung.noise_of(plain), m)
    difference = Estimate(statistics.fmean(losses) - rung.plain_loss, noise.deviation, noise.degrees)
    common = rung.noise.of_difference(n, m)
    compute = multiplier(rung.x, difference, rung.slope, rung.x - math.log(runs.noted.charged), common)
    data = None if math.isnan(rung.data_slope) else multiplier(rung.x, difference, rung.data_slope, common=common)
    return ArmAtRung(
        rung=rung.number,
        n=len(losses),
        loss=statistics.fmean(losses),
        difference=difference,
        compute=compute,
        time=_in_time(compute, runs, plain, costs),
        data=data,
    )


def _in_time(compute: Multiplier, runs: Runs, plain: Runs, costs: Mapping[str, StepCost]) -> Multiplier | None:
    """κ_time, where the arm is the plain block or its steps were timed in turns with it."""
    if runs.noted.role in PLAIN:
        return compute
    cost = costs.get(runs.noted.arm)
    if cost is None or cost.plain != plain.noted.arm:
        return None
    ratio = cost.time_ratio
    flops = runs.results[0].flops / plain.results[0].flops
    error = (math.log(ratio.high) - math.log(ratio.low)) / (2 * REACH_95)
    return in_time(compute, flops, ratio.value, error)


def trouble(rungs: Sequence[RungResults], label: str) -> Trouble | None:
    """Why the losses of an arm cannot decide, at the first rung where that is so."""
    for rung in rungs:
        runs = rung.arms[label]
        if any(not run.causal or run.alarm for run in runs.results):
            return Trouble("leaks", rung.number)
        if len(runs.finished) < len(runs.results):
            return Trouble("diverged", rung.number)
        if _learned_nothing(runs, rung.plain):
            return Trouble("did not train", rung.number)
    return None


def _outcomes(rungs: Sequence[RungResults], predictions: Iterable[Prediction]) -> Iterable[Outcome]:
    """Every prediction with the mean loss of its arm, on the split that the rungs below were judged on."""
    for prediction in predictions:
        loss = math.nan
        of_test = any(rung.tested for rung in rungs if rung.depth < prediction.depth)
        for rung in rungs:
            runs = rung.arms.get(prediction.label)
            pending = of_test and not rung.tested
            if rung.depth == prediction.depth and not pending and runs and runs.noted.arm == prediction.arm:
                losses = runs.losses(rung.split)
                loss = statistics.fmean(losses) if losses else math.nan
        yield Outcome(prediction, loss)
