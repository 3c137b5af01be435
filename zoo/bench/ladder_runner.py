"""Running a ladder: rung by rung, the smallest first; what the store has is not run again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from zoo.bench.ladder_jobs import GATE, at_look, kept_rate, planned_jobs
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
from zoo.bench.store import Store, by_arm
from zoo.bench.suite_notes import note_suite
from zoo.bench.tied_rates import still_tied


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
            pool.catch_up()
            return pool.failures
    finally:
        launcher.stop()


def _schedule(plan: LadderPlan, store: Store, launcher: Launcher, say: Say, again: bool) -> Schedule:
    """What is to be run at least: further looks add to it."""
    results, first = store.read(), plan.ladder.looks[0] if plan.ladder.looks else 0
    planned = [each for rungs in plan.hosts for each in planned_jobs(rungs, plan.suite, results, first)]
    costs = read_costs(store.folder) if plan.suite.costs else {}
    measured = (
        sum(
            len(of) for rung in plan.rungs for of in missing_costs([m.arm for m in rung.members], costs, again).values()
        )
        if plan.suite.costs
        else 0
    )
    return Schedule(
        missing_runs([job for each in planned for job in each.jobs], results, again),
        tested=len(untested_runs([job for each in planned for job in each.judged], results)),
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
        self.ties: dict[int, list[float]] = {}  # of each rung, the rates that tie with the plain block's
        self.stopped: dict[str, str] = {}

    def run(self) -> None:
        self._first_gate()
        for rung in self.rungs[GATE:]:
            self.pool.catch_up()
            self._stop(self.judge.stopped(self.key))
            members = [member for member in rung.members if member.label not in self.stopped]
            self._predict(rung, members)
            factors = self._factors(rung, members)
            self._train(rung, members, factors)
            self._measure(rung, members)

    def _predict(self, rung: Rung, members: Sequence[Member]) -> None:
        if rung is self.rungs[-1]:
            self.pool.catch_up()
            self.judge.predict(self.key, rung, members)

    def _first_gate(self) -> None:
        """The two smallest rungs, with as many seeds as the looks ask for, until every method is settled."""
        small, looks = self.rungs[:GATE], self.plan.ladder.looks or (0,)
        methods = {member.label for member in small[0].members if member.role == "method"}
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
                settled |= self._settle(look, methods - settled)
            if methods <= settled:
                break
        for rung in small:
            self._measure(rung, rung.members)

    def _settle(self, look: int, asked: Collection[str]) -> set[str]:
        """Those of these methods that a look settles, after saying why; the store may know others, of other commands."""
        self.pool.catch_up()
        reasons = {label: reason for label, reason in self.judge.settled(self.key).items() if label in asked}
        for label, reason in reasons.items():
            self.pool.schedule.say(f"{label}: {reason}, after {look} seeds")
        return set(reasons)

    def _stop(self, reasons: Mapping[str, str]) -> None:
        asked = {member.label for member in self.rungs[0].members}
        for label, reason in reasons.items():
            if label in asked and label not in self.stopped:
                self.pool.schedule.say(f"{label} goes no further up: {reason}")
        self.stopped |= reasons

    def _factors(self, rung: Rung, members: Iterable[Member]) -> dict[str, float]:
        """The rate of every arm: tried at the two smallest rungs, and further up where those disagree."""
        own = [member for member in members if member.role in OWN_RATE]
        decided = {
            member.label: rate for member in own if (rate := kept_rate(member.role, self.rates.get(member.label, ())))
        }
        tried = [member for member in own if member.label not in decided]
        grid = try_rates(
            self.pool,
            [member.arm for member in tried],
            self.plan.suite,
            without=[member.arm.id for member in tried if member.role == "harm"],
        )
        of_arm = by_arm(self.pool.store.read().values())
        if rung.plain in tried:
            self.ties[rung.number] = still_tied(rung.plain.arm, grid, of_arm.get(rung.plain.arm.id, ()))
        factors = {}
        for member in own:
            suite = replace(grid, lrs=(decided[member.label],), widenings=0) if member.label in decided else grid
            factors[member.label] = best_rate(of_arm.get(member.arm.id, ()), member.arm, suite)
            self.rates.setdefault(member.label, []).append(factors[member.label])
        return {member.label: factors.get(member.label, factors[rung.plain.label]) for member in members}

    def _train(self, rung: Rung, members: Sequence[Member], factors: Mapping[str, float]) -> None:
        jobs = [job for member in members for job in member.jobs(factors[member.label])]
        plain = [member for member in members if member.role == "plain"]
        jobs += [job for factor in self.ties.get(rung.number, ()) for member in plain for job in member.jobs(factor)]
        judged = {m.arm.id: m.arm.baselines for m in members if m.arm.match == "method"}
        note_suite(self.pool.store.folder, self.plan.name, judged, self.plan.suite.twins, self.plan.suite.margin)
        notes = [self._note(rung, member, factors[member.label]) for member in members]
        self._write_notes(notes)
        self.pool.judge(jobs)
        self._write_notes(notes)

    def _write_notes(self, notes: Iterable[LadderArm]) -> None:
        runs = {(run.arm, run.seed, run.lr_factor) for run in self.pool.store.read().values()}
        note_arms(self.pool.store.folder, notes, runs)

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
            ties=self.ties.get(rung.number, []) if member.role == "plain" else [],
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
