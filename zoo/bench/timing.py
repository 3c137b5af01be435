"""Time and memory of several things against each other on a shared, noisy machine.

Each arm lives in a process of its own, with an allocator of its own; rounds are interleaved, and only ratios within a
round count.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from zoo.bench.measured_process import Build, Step, answer_of, answer_once, start, time_steps, weigh_steps
from zoo.system.process import ENVIRONMENT

__all__ = ["Build", "Measurement", "Step", "Worker", "compare", "in_turns", "measure_memory", "measure_once"]

GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # what is free goes back to the system: what is left is in use

PAUSE = 0.01  # seconds between turns, in which the threads of the one before stop spinning


class Measurement(NamedTuple):
    """What the steps of an arm took."""

    seconds: list[float]  # per step, one for each round
    memory: float  # MB in use at once, above what the process had before its first step; NaN: unknown

    def ratio(self, other: Measurement) -> float:
        """The time of a step relative to another arm's, the median over rounds."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


class Worker:
    """A process that has built something and makes steps of it on request."""

    def __init__(
        self,
        name: str,
        build: Build,
        *,
        threads: int,
        warm_up: int = 2,
        settings: Mapping[str, str] | None = None,
        cpu: bool = False,
    ) -> None:
        """Start the process and warm it up.

        `settings` are those of the C library's allocator; None: as the commands set it. `cpu` counts the process's CPU
        time, which other work on the machine hardly changes, in place of the clock's.
        """
        self.name = name
        arguments = (build, warm_up, threads, cpu)
        self._process, self._pipe = start(time_steps, arguments, ENVIRONMENT if settings is None else settings)
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def time(self, steps: int) -> float:
        """Seconds per step, over so many."""
        time.sleep(PAUSE)
        self._pipe.send(steps)
        return float(self._answer())

    def close(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self) -> Any:
        return answer_of(self._pipe, self.name)


def measure_memory(name: str, build: Build, threads: int) -> float:
    """MB that two steps had in use at once, above what was in use before the first."""
    return _number(weigh_steps, name, build, threads, GIVE_BACK)


def measure_once(name: str, build: Callable[[], Callable[[], float]], threads: int) -> float:
    """The number that what is built gives, in a process of its own."""
    return _number(answer_once, name, build, threads, ENVIRONMENT)


def _number(
    work: Callable[..., None], name: str, build: Callable[[], object], threads: int, settings: Mapping[str, str]
) -> float:
    process, pipe = start(work, (build, threads), settings)
    try:
        return float(answer_of(pipe, name))
    finally:
        pipe.close()
        process.terminate()
        process.join()


def compare(
    arms: Mapping[str, Build],
    *,
    rounds: int = 7,
    steps: int = 1,
    warm_up: int = 2,
    threads: int = 2,
    as_they_come: Collection[str] = (),
    cpu: bool = False,
) -> dict[str, Measurement]:
    """Seconds per step of every arm in every round, and the memory it took.

    Arms run in the environment that `tools/run` and the commands set; those that are named run without it.
    """
    with contextlib.ExitStack() as stack:
        memory, workers = {}, {}
        for name, build in arms.items():  # one after the other: warm-up must not compete
            memory[name] = measure_memory(name, build, threads)
            settings: dict[str, str] | None = {} if name in as_they_come else None
            worker = Worker(name, build, threads=threads, warm_up=warm_up, settings=settings, cpu=cpu)
            workers[name] = stack.enter_context(worker)
        seconds: dict[str, list[float]] = {name: [] for name in arms}
        for _ in range(rounds):
            for name, worker in workers.items():
                seconds[name].append(worker.time(steps))
    return {name: Measurement(seconds[name], memory[name]) for name in arms}


def in_turns(one: Worker, other: Worker, rounds: int, patience: float = 20.0) -> list[tuple[float, float]]:
    """Seconds per step of both, round by round; fewer rounds where steps are slow, to last about `patience` seconds.

    Rounds are short and many, so that other work on the machine mostly slows both.
    """
    both = one.time(1) + other.time(1)
    steps = max(1, math.ceil(0.1 / both))
    rounds = max(5, min(rounds, int(patience / (steps * both))))
    seconds = []
    for turn in range(rounds):  # neither is always the first
        if turn % 2:
            second = other.time(steps)
            seconds.append((one.time(steps), second))
        else:
            seconds.append((one.time(steps), other.time(steps)))
    return seconds
