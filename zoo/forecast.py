"""What a bench has still to run, and how long that should take."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zoo.arms import Arm, Job, plan
from zoo.bench import best, outdated
from zoo.measure import Worker
from zoo.rehearsal import training
from zoo.store import Result
from zoo.suite import Suite


class Pace(NamedTuple):
    """How fast a model trains here."""

    start: float  # seconds until the first step
    step: float


def pace(arm: Arm, threads: int) -> Pace:
    """How fast this arm trains here, from a few real steps in a process of its own."""
    began = time.monotonic()
    with Worker(arm.name, functools.partial(training, Job(arm, 1, 1.0).text), threads=threads, warm_up=1) as worker:
        return Pace(time.monotonic() - began, worker.time(2))


def missing(arm: Arm, suite: Suite, results: Mapping[str, Result]) -> tuple[int, int]:
    """How many of the arm's runs are not in the store: at least, and should another rate turn out to be the best."""

    def count(jobs: Iterable[Job]) -> int:
        return sum(job.key not in results or bool(outdated(results[job.key], job)) for job in jobs)

    def others(rate: float) -> int:
        return count(Job(arm, seed, rate) for seed in range(2, suite.seeds + 1))

    first = count(plan([arm], suite))
    rates = suite.lrs if first else (best(results.values(), arm, suite),)
    return first + min(map(others, rates)), first + max(map(others, rates))
