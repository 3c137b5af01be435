"""How many seeds each arm of a bench gets: a control more than a method, later looks more than the first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from zoo.bench.arms import Arm, Job
from zoo.bench.store import TUNING_SEED
from zoo.bench.suite import Suite
from zoo.statistics.looks import chances_to_go_on, planned_looks


def seed_counts(
    arms: Sequence[Arm], suite: Suite, seeds: int | None = None, methods: Collection[str] | None = None
) -> dict[str, int]:
    """The seeds of each arm, by its id; of `methods` and their baselines alone, where those are named.

    A baseline that m methods are compared with is in m differences: it gets √m times their seeds, which makes the sum of
    their variances least (Dunnett 1955), unless `suite.control_seeds` says otherwise.
    """
    seeds = suite.seeds if seeds is None else seeds
    judged = [arm for arm in arms if arm.match == "method" and (methods is None or arm.id in methods)]
    compared = Counter(id for arm in judged for id in set(arm.baselines.values()))
    counts = {}
    for arm in arms:
        if arm.match == "method":
            counts[arm.id] = seeds if arm in judged else 0
        elif arm.id in compared or methods is None:
            counts[arm.id] = control_seeds(seeds, compared[arm.id], suite)
    return {id: count for id, count in counts.items() if count}


def control_seeds(seeds: int, methods: int, suite: Suite) -> int:
    """The seeds of a baseline that so many methods of so many seeds are compared with."""
    if suite.control_seeds is not None:
        return max(seeds, suite.control_seeds)
    return round(seeds * math.sqrt(max(1, methods))) if seeds > 1 else seeds


def tuning_runs(arms: Sequence[Arm], suite: Suite) -> list[Job]:
    """The runs that choose learning rates: every rate, on the tuning seed; none where there is no choice."""
    return [Job(arm, TUNING_SEED, factor) for arm in arms for factor in suite.lrs] if len(suite.lrs) > 1 else []


def judged_runs(arms: Sequence[Arm], rates: Mapping[str, float], counts: Mapping[str, int]) -> list[Job]:
    """The runs that are judged, each at its arm's rate: first all arms on seed 1."""
    jobs = [Job(arm, seed, rates[arm.id]) for arm in arms for seed in range(1, counts.get(arm.id, 0) + 1)]
    return sorted(jobs, key=lambda job: job.seed > 1)


def runs_until_decided(arms: Sequence[Arm], suite: Suite) -> tuple[int, float]:
    """The runs of all planned looks: at most, and what is to be expected should no method differ."""
    looks = planned_looks(suite.looks)
    tuning = len(tuning_runs(arms, suite))
    counts = [seed_counts(arms, suite, look.seeds) for look in looks]
    compared = Counter(id for arm in arms for id in set(arm.baselines.values()))
    expected = float(sum(counts[0].values()))
    for chance, now, later in zip(chances_to_go_on(looks), counts, counts[1:], strict=False):
        for arm in arms:
            needed_by = 1 if arm.match == "method" else compared[arm.id]
            expected += (1 - (1 - chance) ** needed_by) * (later[arm.id] - now[arm.id])
    return tuning + sum(counts[-1].values()), tuning + expected
