"""Method against baselines: what the store lacks is run, every run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from zoo.bench.arms import Arm, Job
from zoo.bench.launch import Launcher, LocalLauncher, signals_as_interrupts
from zoo.bench.learning_rates import best_rate, warn_of_better_rate
from zoo.bench.measure_costs import measure_costs, missing_costs
from zoo.bench.missing import missing_runs, untested_runs
from zoo.bench.pool import Pool
from zoo.bench.rate_curves import widened
from zoo.bench.rate_trials import try_rates
from zoo.bench.schedule import Say, Schedule
from zoo.bench.seeds import judged_runs, seed_counts, tuning_runs
from zoo.bench.step_costs import read_costs
from zoo.bench.store import Result, Store, by_arm
from zoo.bench.suite import Suite

Undecided = Callable[[Iterable[Result]], Collection[str]]  # results → the methods whose verdict needs more seeds


def run_bench(
    arms: Sequence[Arm],
    suite: Suite,
    store: Store,
    *,
    launcher: Launcher | None = None,
    say: Say = print,
    again: bool = False,
    undecided: Undecided | None = None,
) -> list[str]:
    """Do what the store does not have: learning rates on the tuning seed, the seeds, the test split, the costs.

    A run that fails ends its arm alone; the failures are returned. `again` also runs what has other code since. Without
    a launcher, processes on this machine do the runs, one at a time. With `undecided` the seeds are those of the planned
    looks, and after each look only the methods go on that it names.
    """
    launcher = launcher or LocalLauncher()
    suite = widened(arms, suite, store.read().values()) if suite.widenings else suite
    try:
        seeds = suite.looks[0] if undecided else suite.seeds
        with signals_as_interrupts(), _schedule(arms, suite, store, launcher, say, again, seeds) as schedule:
            return _run(Pool(store, launcher, schedule, again), arms, suite, undecided)
    finally:
        launcher.stop()


def _schedule(
    arms: Sequence[Arm], suite: Suite, store: Store, launcher: Launcher, say: Say, again: bool, seeds: int
) -> Schedule:
    """The work ahead, should the rates that look best now remain the best; of several looks, up to the first."""
    results = store.read()
    rates = _best_rates(arms, suite, results.values())
    judged = judged_runs(arms, rates, seed_counts(arms, suite, seeds))
    costs = missing_costs(arms, read_costs(store.folder), again) if suite.costs else {}
    return Schedule(
        missing_runs([*tuning_runs(arms, suite), *judged], results, again),
        tested=len(untested_runs(judged, results)),
        measured=sum(map(len, costs.values())),
        at_a_time=launcher.capacity,
        say=say,
        step=launcher.step,
    )


def _run(pool: Pool, arms: Sequence[Arm], suite: Suite, undecided: Undecided | None) -> list[str]:
    suite = try_rates(pool, arms, suite)
    results = pool.store.read().values()
    rates = _best_rates(arms, suite, results)
    of_arm = by_arm(results)
    for arm in arms:
        warn_of_better_rate(of_arm.get(arm.id, ()), arm, suite, pool.schedule.say)
    if undecided:
        _train_until_decided(pool, arms, suite, rates, undecided)
    else:
        _judge(pool, judged_runs(arms, rates, seed_counts(arms, suite)))
    pool.catch_up()
    if suite.costs:
        pool.failures += measure_costs(
            [arm for arm in arms if arm.id not in pool.failed_arms],
            pool.store.folder,
            threads=pool.launcher.cores,
            say=pool.schedule.say,
            again=pool.again,
            left=pool.schedule.after_cost,
        )
    return pool.failures


def _judge(pool: Pool, jobs: Sequence[Job]) -> None:
    first = [job for job in jobs if job.seed == 1]  # before the others: an arm that cannot be trained fails once
    pool.judge(first, [job for job in jobs if job.seed != 1])


def _train_until_decided(
    pool: Pool, arms: Sequence[Arm], suite: Suite, rates: Mapping[str, float], undecided: Undecided
) -> None:
    """Train the seeds of the first look, then of each later one for the methods that are undecided, with their baselines."""
    methods = {arm.id for arm in arms if arm.match == "method"}
    for number, seeds in enumerate(suite.looks):
        if number:
            pool.catch_up()
            methods &= set(undecided(pool.store.read().values()))
            names = ", ".join(arm.name for arm in arms if arm.id in methods) or "nothing"
            pool.schedule.say(f"after the look at {suite.looks[number - 1]} seeds, undecided: {names}")
        if not methods:
            break
        _judge(pool, judged_runs(arms, rates, seed_counts(arms, suite, seeds, methods if number else None)))


def _best_rates(arms: Iterable[Arm], suite: Suite, results: Iterable[Result]) -> dict[str, float]:
    """The rate of every arm, by its id."""
    of_arm = by_arm(results)
    return {arm.id: best_rate(of_arm.get(arm.id, ()), arm, suite) for arm in arms}
