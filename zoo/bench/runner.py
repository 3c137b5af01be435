"""Method against baselines: what the store lacks is run, every run in a process of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zoo.bench.arms import Arm, Job, first_runs
from zoo.bench.launch import Launcher, LocalLauncher, signals_as_interrupts
from zoo.bench.learning_rates import best_rate, warn_of_better_rate
from zoo.bench.measure_costs import measure_costs, missing_costs
from zoo.bench.missing import missing_runs, untested_runs
from zoo.bench.pool import Pool
from zoo.bench.rate_curves import outside, widened
from zoo.bench.schedule import Say, Schedule
from zoo.bench.step_costs import read_costs
from zoo.bench.store import Result, Store, by_arm
from zoo.bench.suite import Suite


def run_bench(
    arms: Sequence[Arm],
    suite: Suite,
    store: Store,
    *,
    launcher: Launcher | None = None,
    say: Say = print,
    again: bool = False,
) -> list[str]:
    """Do what the store does not have: learning rates on the first seed, the other seeds, the test split, the costs.

    A run that fails ends its arm alone; the failures are returned. `again` also runs what has other code since. Without
    a launcher, processes on this machine do the runs, one at a time.
    """
    launcher = launcher or LocalLauncher()
    suite = widened(arms, suite, store.read().values()) if suite.widenings else suite
    try:
        with signals_as_interrupts(), _schedule(arms, suite, store, launcher.capacity, say, again) as schedule:
            return _run(Pool(store, launcher, schedule, again), arms, suite)
    finally:
        launcher.stop()


def _schedule(arms: Sequence[Arm], suite: Suite, store: Store, capacity: int, say: Say, again: bool) -> Schedule:
    """The work ahead, should the rates that look best now remain the best."""
    results = store.read()
    rates = _best_rates(arms, suite, results.values())
    first, later = first_runs(arms, suite), _runs(arms, rates, range(2, suite.seeds + 1))
    costs = missing_costs(arms, read_costs(store.folder), again) if suite.costs else {}
    return Schedule(
        missing_runs([*first, *later], results, again),
        tested=len(untested_runs([*first[:: len(suite.lrs)], *later], results)),
        measured=sum(map(len, costs.values())),
        at_a_time=capacity,
        say=say,
    )


def _run(pool: Pool, arms: Sequence[Arm], suite: Suite) -> list[str]:
    suite = _try_rates(pool, arms, suite)
    results = pool.store.read().values()
    rates = _best_rates(arms, suite, results)
    of_arm = by_arm(results)
    for arm in arms:
        warn_of_better_rate(of_arm.get(arm.id, ()), arm, suite, pool.schedule.say)
    pool.train(_runs(arms, rates, range(2, suite.seeds + 1)))
    pool.test(_runs(arms, rates, range(1, suite.seeds + 1)))
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


def _try_rates(pool: Pool, arms: Sequence[Arm], suite: Suite) -> Suite:
    """Train every arm at every rate, and at more of them where the best is at the edge; the suite with all rates tried."""
    pool.train(first_runs(arms, suite))
    while suite.widenings:
        wider = widened(arms, suite, pool.store.read().values())
        if wider.lrs == suite.lrs:
            return suite
        rates = ", ".join(f"{factor:g}" for factor in sorted(set(wider.lrs) - set(suite.lrs)))
        pool.schedule.say(f"the best rate of an arm is at the edge of those tried: all are also tried at lr × {rates}")
        suite = wider
        pool.train(first_runs(arms, suite))
    if len(suite.lrs) > 2:
        for arm in outside(arms, suite, pool.store.read().values()):
            pool.schedule.say(f"{arm.name} ({arm.match}, {arm.host}): the best rate is at the edge of those tried")
    return suite


def _runs(arms: Iterable[Arm], rates: Mapping[str, float], seeds: range) -> list[Job]:
    """The runs of these seeds, each at its arm's rate."""
    return [Job(arm, seed, rates[arm.id]) for arm in arms for seed in seeds]


def _best_rates(arms: Iterable[Arm], suite: Suite, results: Iterable[Result]) -> dict[str, float]:
    """The rate of every arm, by its id."""
    of_arm = by_arm(results)
    return {arm.id: best_rate(of_arm.get(arm.id, ()), arm, suite) for arm in arms}
