"""Which learning rate an arm is judged at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zoo.bench.arms import Arm, Job
from zoo.bench.freshness import outdated
from zoo.bench.schedule import Say
from zoo.bench.store import TUNING_SEED, Result, best_factor
from zoo.bench.suite import Suite


def best_rate(results: Iterable[Result], arm: Arm, suite: Suite) -> float:
    """The factor of the arm's learning rate: the best of those that this bench gives to every arm."""
    of_arm = [r for r in results if r.arm == arm.id and r.lr_factor in suite.lrs]
    factor = best_factor([r for r in of_arm if not outdated(r, Job(arm, r.seed, r.lr_factor))])
    return suite.lrs[0] if factor is None else factor


def warn_of_better_rate(results: Sequence[Result], arm: Arm, suite: Suite, say: Say) -> None:
    """Say so if an earlier bench of this store had a better rate than this one's: the report uses that."""
    of_arm = [run for run in results if run.arm == arm.id]
    first = min((run.seed for run in of_arm), default=TUNING_SEED)  # the tuning seed, where it was run
    tried = tuple(sorted({run.lr_factor for run in of_arm if run.seed == first} | set(suite.lrs)))
    best = best_rate(results, arm, replace(suite, lrs=tried))
    if best not in suite.lrs:
        rates = ",".join(f"{factor:g}" for factor in tried)
        say(
            f"{arm.name} ({arm.match}, {arm.host}) did better at lr × {best:g} in this store, and the report shows it there:"
            f" --lrs {rates} runs all seeds at the best rate"
        )
