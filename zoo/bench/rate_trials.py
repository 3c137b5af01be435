"""Trying learning rates: every arm at every rate, on seeds by which nothing is judged."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zoo.bench.arms import Arm, Job
from zoo.bench.pool import Pool
from zoo.bench.rate_curves import outside, widened
from zoo.bench.seeds import tuning_runs
from zoo.bench.store import by_arm
from zoo.bench.suite import Suite
from zoo.bench.tied_rates import tied_runs


def try_rates(pool: Pool, arms: Sequence[Arm], suite: Suite, without: Collection[str] = ()) -> Suite:
    """Train every arm at every rate, at more of them where the best is at the edge, on more seeds where rates tie.

    The answer is the suite with all rates tried. An arm whose id is in `without` is tried at the rates that the others need, on
    the tuning seed alone.
    """
    deciding = [arm for arm in arms if arm.id not in without]
    pool.train(tuning_runs(arms, suite))
    asked: set[str] = set()  # runs that decide between rates that tie: one that failed is not asked for again
    while True:
        results = pool.store.read().values()
        wider = widened(deciding, suite, results) if suite.widenings else suite
        if wider.lrs != suite.lrs:
            rates = ", ".join(f"{factor:g}" for factor in sorted(set(wider.lrs) - set(suite.lrs)))
            pool.schedule.say(
                f"the best rate of an arm is at the edge of those tried: all are also tried at lr × {rates}"
            )
            suite = wider
            pool.train(tuning_runs(arms, suite))
            continue
        of_arm = by_arm(results)
        ties = [
            job for arm in deciding for job in tied_runs(arm, suite, of_arm.get(arm.id, ())) if job.key not in asked
        ]
        if not ties:
            break
        pool.schedule.say(f"rates that tie are tried on a further seed: {_listed(ties)}")
        asked |= {job.key for job in ties}
        pool.train(ties)
    if len(suite.lrs) > 2:
        for arm in outside(deciding, suite, results):
            pool.schedule.say(f"{arm.name} ({arm.match}, {arm.host}): the best rate is at the edge of those tried")
    return suite


def _listed(jobs: Sequence[Job]) -> str:
    """The rates of every arm, such as m × 0.5, 1."""
    rates: dict[str, list[str]] = {}
    for job in jobs:
        rates.setdefault(job.arm.name, []).append(f"{job.lr_factor:g}")
    return "; ".join(f"{name} × {', '.join(of)}" for name, of in rates.items())
