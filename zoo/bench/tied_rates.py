"""Learning rates that tie on the tuning seed: further seeds decide between them, before anything is judged."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from zoo.bench.arms import Arm, Job
from zoo.bench.freshness import outdated
from zoo.bench.learning_rates import best_rate
from zoo.bench.store import FURTHER_TUNING, Result, tuning_losses
from zoo.bench.suite import Suite


def tied_runs(arm: Arm, suite: Suite, results: Iterable[Result]) -> list[Job]:
    """The next runs that decide between those rates of an arm whose mean losses tie.

    A further seed at a time, so that a rate that falls behind gets no more of them. None where one rate is best, where every rate
    that ties has had all `suite.tie_seeds`, or while a rate of the grid has not been tried.
    """
    tied = _tied(arm, suite, results)
    had = min(tied.values(), default=0)
    if len(tied) < 2 or had > suite.tie_seeds:
        return []
    return [Job(arm, FURTHER_TUNING + had, factor) for factor, seeds in tied.items() if seeds == had]


def still_tied(arm: Arm, suite: Suite, results: Iterable[Result]) -> list[float]:
    """The rates that tie with the best one of an arm, that one left out."""
    results = list(results)
    tied = _tied(arm, suite, results)
    return sorted(tied.keys() - {best_rate(results, arm, suite)})


def _tied(arm: Arm, suite: Suite, results: Iterable[Result]) -> dict[float, int]:
    """The best rate of an arm and those that tie with it, each with the number of its tuning seeds.

    None if ties do not count, or if the arm diverges at every rate: further seeds would not choose one.
    """
    of_arm = (r for r in results if r.arm == arm.id and r.lr_factor in suite.lrs)
    losses = tuning_losses(r for r in of_arm if not outdated(r, Job(arm, r.seed, r.lr_factor)))
    if not suite.tie_seeds or losses.keys() < set(suite.lrs):
        return {}
    means = {factor: statistics.fmean(each) for factor, each in losses.items()}
    best = min(means.values())
    if math.isinf(best):
        return {}
    return {factor: len(losses[factor]) for factor, mean in means.items() if mean <= best * (1 + suite.tie)}
