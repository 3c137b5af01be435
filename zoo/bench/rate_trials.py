"""Trying learning rates: every arm at every rate, on the seed by which nothing is judged."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zoo.bench.arms import Arm
from zoo.bench.pool import Pool
from zoo.bench.rate_curves import outside, widened
from zoo.bench.seeds import tuning_runs
from zoo.bench.suite import Suite


def try_rates(pool: Pool, arms: Sequence[Arm], suite: Suite, without: Collection[str] = ()) -> Suite:
    """Train every arm at every rate, and at more of them where the best is at the edge; the suite with all rates tried.

    An arm whose id is in `without` is tried at the rates that the others need.
    """
    deciding = [arm for arm in arms if arm.id not in without]
    pool.train(tuning_runs(arms, suite))
    while suite.widenings:
        wider = widened(deciding, suite, pool.store.read().values())
        if wider.lrs == suite.lrs:
            return suite
        rates = ", ".join(f"{factor:g}" for factor in sorted(set(wider.lrs) - set(suite.lrs)))
        pool.schedule.say(f"the best rate of an arm is at the edge of those tried: all are also tried at lr × {rates}")
        suite = wider
        pool.train(tuning_runs(arms, suite))
    if len(suite.lrs) > 2:
        for arm in outside(deciding, suite, pool.store.read().values()):
            pool.schedule.say(f"{arm.name} ({arm.match}, {arm.host}): the best rate is at the edge of those tried")
    return suite
