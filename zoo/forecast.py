"""What a bench has still to run, and how long that should take."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zoo.arms import Arm, Job, plan
from zoo.bench import best, environment, outdated
from zoo.errors import ZooError
from zoo.store import Result
from zoo.suite import Suite


class Pace(NamedTuple):
    """How fast a model trains here."""

    start: float  # seconds until the first step
    step: float


def pace(arm: Arm, threads: int) -> Pace:
    """How fast this arm trains here, from three real steps in a process of its own."""
    code = "import sys; from zoo.forecast import time_steps; print(time_steps(sys.stdin.read()))"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=Job(arm, 1, 1.0).text,
        env=environment(threads),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ZooError(f"{arm.name} cannot be trained:\n" + "\n".join(done.stderr.strip().splitlines()[-8:]))
    return Pace(time.monotonic() - began, float(done.stdout.split()[-1]))


def time_steps(text: str) -> float:
    """Seconds of a training step on random tokens, without the first."""
    import torch

    from zoo import config

    with tempfile.NamedTemporaryFile("w", suffix=".gin") as file:
        file.write(text)
        file.flush()
        loaded = config.load([file.name])
    vocabulary, length = loaded.get("data.vocab_size"), loaded.get("data.length")
    model = loaded.build("model", vocab_size=vocabulary, max_length=length)
    batch = torch.randint(vocabulary, (loaded.get("data.batch_size"), length + 1))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        model.loss(batch[:, :-1], batch[:, 1:]).backward()
        times.append(time.perf_counter() - began)
    return min(times[1:]) * loaded.get("train.accumulate") * 1.1  # and the optimiser


def missing(arm: Arm, suite: Suite, results: Mapping[str, Result]) -> tuple[int, int]:
    """How many of the arm's runs are not in the store: at least, and should another rate turn out to be the best."""

    def count(jobs: Iterable[Job]) -> int:
        return sum(job.key not in results or bool(outdated(results[job.key], job)) for job in jobs)

    def others(rate: float) -> int:
        return count(Job(arm, seed, rate) for seed in range(2, suite.seeds + 1))

    first = count(plan([arm], suite))
    rates = suite.lrs if first else (best(results.values(), arm, suite),)
    return first + min(map(others, rates)), first + max(map(others, rates))
