"""Running a ladder: rung by rung, the smallest first; what the store has is not run again."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from zoo.bench.arms import Job
from zoo.bench.ladder_notes import LadderArm, note_arms
from zoo.bench.ladder_plan import OWN_RATE, LadderPlan, Member, Rung
from zoo.bench.launch import Launcher, signals_as_interrupts
from zoo.bench.learning_rates import best_rate
from zoo.bench.measure_costs import measure_costs, missing_costs
from zoo.bench.missing import missing_runs, untested_runs
from zoo.bench.pool import Pool
from zoo.bench.rate_trials import try_rates
from zoo.bench.schedule import Say, Schedule
from zoo.bench.step_costs import read_costs
from zoo.bench.store import TUNING_SEED, Result, Store, by_arm
from zoo.bench.suite import Suite
from zoo.bench.suite_notes import note_suite

GATE = 2  # rungs of the first gate: the smallest, where rates are chosen and looks are taken
AGREE = math.sqrt(2)  # two rungs whose rates differ by more make the next one try all rates too


class Judge(Protocol):
    """What is asked of the results while a ladder runs."""

    def settled(self, ladder: str) -> Mapping[str, str]:
        """The methods that get no further seed at the two smallest rungs, with the reason."""

    def stopped(self, ladder: str) -> Mapping[str, str]:
        """The methods that go no further up, with the reason."""

    def predict(self, ladder: str, rung: Rung, members: Sequence[Member]) -> None:
        """Write down what these arms should give at the top rung, before it is run."""


def run_ladder(
    plan: LadderPlan, store: Store, judge: Judge, *, launcher: Launcher, say: Say = print, again: bool = False
) -> list[str]:
    """Run what the store lacks, host by host and rung by rung. A run that fails ends its arm alone; the failures."""
    try:
        with signals_as_interrupts(), _schedule(plan, store, launcher, say, again) as schedule:
            pool = Pool(store, launcher, schedule, again)
            for rungs in plan.hosts:
                _Climb(plan, rungs, pool, judge).run()
            return pool.failures
    finally:
        launcher.stop()


def planned_jobs(rungs: Sequence[Rung], suite: Suite, results: Iterable[Result]) -> list[Job]:
    """The runs of a host's rungs, should every look be needed: at the rates that are known by now, else at the middle one."""
    of_arm, middle = by_arm(results), suite.lrs[len(suite.lrs) // 2]
    rates: dict[str, float] = {}
    jobs = []
    for rung in rungs:
        own = [member for member in rung.members if member.role in OWN_RATE]
        for member in own:
            runs = of_arm.get(member.arm.id, [])
            tried = {run.lr_factor for run in runs if run.seed == TUNING_SEED}
            if tried >= set(suite.lrs):
                rates[member.label] = best_rate(runs, member.arm, replace(suite, lrs=tuple(sorted(tried))))
        for member in rung.members:
            label = member.label if member in own else rung.plain.label
            jobs += member.jobs(rates.get(label, middle))
        if rung.number <= GATE and len(suite.lrs) > 1:
            jobs += [Job(member.arm, TUNING_SEED, factor) for member in own for factor in suite.lrs]
    return list({job.key: job for job in jobs}.values())


def _schedule(plan: LadderPlan, store: Store, launcher: Launcher, say: Say, again: bool) -> Schedule:
    results = store.read()
    jobs = [job for rungs in plan.hosts for job in planned_jobs(rungs, plan.suite, results.values())]
    costs = read_costs(store.folder) if plan.suite.costs else {}
    measured = (
        sum(
            len(of) for rung in plan.rungs for of in missing_costs([m.arm for m in rung.members], costs, again).values()
        )
        if plan.suite.costs
        else 0
    )
    return Schedule(
        missing_runs(jobs, results, again),
        tested=len(untested_runs([job for job in jobs if job.seed != TUNING_SEED], results)),
        measured=measured,
        at_a_time=launcher.capacity,
        say=say,
        step=launcher.step,
    )


class _Climb:
    """The rungs of one host, one after the other."""

    def __init__(self, plan: LadderPlan, rungs: Sequence[Rung], pool: Pool, judge: Judge) -> None:
        self.plan, self.rungs, self.pool, self.judge = plan, rungs, pool, judge
        self.key = plan.key(rungs)
        self.rates: dict[str, list[float]] = {}  # of each label, those that it chose at the rungs so far
        self.stopped: dict[str, str] = {}

    def run(self) -> None:
        self._first_gate()
        for rung in self.rungs[GATE:]:
            self._stop(self.judge.stopped(self.key))
            members = [member for member in rung.members if member.label not in self.stopped]
            self._predict(rung, members)
            factors = self._factors(rung, members)
            self._train(rung, members, factors)
            self._measure(rung, members)

    def _predict(self, rung: Rung, members: Sequence[Member]) -> None:
        if rung is self.rungs[-1]:
            self.judge.predict(self.key, rung, members)

    def _first_gate(self) -> None:
        """The two smallest rungs, with as many seeds as the looks ask for."""
        small, looks = self.rungs[:GATE], self.plan.ladder.looks or (0,)
        factors: dict[int, dict[str, float]] = {}
        settled: set[str] = set()
        for look in looks:
            for rung in small:
                if rung.number not in factors:
                    self._predict(rung, rung.members)
                    factors[rung.number] = self._factors(rung, rung.members)
                members = [at_look(member, look) for member in rung.members if member.label not in settled]
                self._train(rung, members, factors[rung.number])
            if look:
                settled |= self._settle(look, settled)
        for rung in small:
            self._measure(rung, rung.members)

    def _settle(self, look: int, settled: Collection[str]) -> set[str]:
        """The methods that a look settles, after saying why."""
        reasons = {label: reason for label, reason in self.judge.settled(self.key).items() if label not in settled}
        for label, reason in reasons.items():
            self.pool.schedule.say(f"{label}: {reason}, after {look} seeds")
        return set(reasons)

    def _stop(self, reasons: Mapping[str, str]) -> None:
        for label, reason in reasons.items():
            if label not in self.stopped:
                self.pool.schedule.say(f"{label} goes no further up: {reason}")
        self.stopped |= reasons

    def _factors(self, rung: Rung, members: Iterable[Member]) -> dict[str, float]:
        """The rate of every arm: tried at the two smallest rungs, and further up where those disagree."""
        own = [member for member in members if member.role in OWN_RATE]
        decided = {member.label: rate for member in own if (rate := self._decided(member.label))}
        tried = [member for member in own if member.label not in decided]
        grid = try_rates(
            self.pool,
            [member.arm for member in tried],
            self.plan.suite,
            without=[member.arm.id for member in tried if member.role == "harm"],
        )
        of_arm = by_arm(self.pool.store.read().values())
        factors = {}
        for member in own:
            suite = replace(grid, lrs=(decided[member.label],), widenings=0) if member.label in decided else grid
            factors[member.label] = best_rate(of_arm.get(member.arm.id, ()), member.arm, suite)
            self.rates.setdefault(member.label, []).append(factors[member.label])
        return {member.label: factors.get(member.label, factors[rung.plain.label]) for member in members}

    def _decided(self, label: str) -> float | None:
        """The rate that an arm keeps from the rungs below; None: it tries all of them, here too."""
        chosen = self.rates.get(label, [])
        if len(chosen) < GATE:
            return None
        one, other = chosen[-2:]
        return None if max(one, other) / min(one, other) > AGREE else other

    def _train(self, rung: Rung, members: Sequence[Member], factors: Mapping[str, float]) -> None:
        jobs = [job for member in members for job in member.jobs(factors[member.label])]
        judged = {m.arm.id: m.arm.baselines for m in members if m.arm.match == "method"}
        note_suite(self.pool.store.folder, self.plan.name, judged, self.plan.suite.twins, self.plan.suite.margin)
        note_arms(self.pool.store.folder, [self._note(rung, member, factors[member.label]) for member in members])
        self.pool.train(jobs)
        self.pool.test(jobs)

    def _note(self, rung: Rung, member: Member, factor: float) -> LadderArm:
        return LadderArm(
            ladder=self.key,
            name=self.plan.name,
            host=rung.host,
            margin=self.plan.ladder.margin,
            depth=rung.size.depth,
            parameters=rung.size.parameters,
            tokens=rung.plain.arm.steps * rung.plain.arm.tokens_per_step,
            label=member.label,
            role=member.role,
            arm=member.arm.id,
            factor=factor,
            seeds=list(member.seeds),
            charged=member.charged,
            looks=list(self.plan.ladder.looks) if member.role == "method" and rung.number <= GATE else [],
        )

    def _measure(self, rung: Rung, members: Iterable[Member]) -> None:
        """Time and memory of the methods' steps, in turns with the plain block's."""
        if not self.plan.suite.costs:
            return
        arms = {member.arm.id: member.arm for member in members if member.role in OWN_RATE}
        self.pool.failures += measure_costs(
            [arm for id, arm in arms.items() if id not in self.pool.failed_arms],
            self.pool.store.folder,
            threads=self.pool.launcher.cores,
            say=self.pool.schedule.say,
            again=self.pool.again,
            left=self.pool.schedule.after_cost,
        )


def at_look(member: Member, look: int) -> Member:
    """The arm with the seeds of a look: a method has as many, the plain block never fewer; without a look (0) its own."""
    if not look or member.role not in ("method", "plain"):
        return member
    count = look if member.role == "method" else max(look, len(member.seeds))
    return member._replace(seeds=tuple(range(1, count + 1)))
