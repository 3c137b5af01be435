"""Time and memory of several things against each other on a shared, noisy machine.

Each arm lives in a process of its own, with an allocator of its own; rounds are interleaved, and only ratios within a
round count.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import NamedTuple

Step = Callable[[], object]
Build = Callable[[], Step]  # must be picklable: a function of a module, or a partial of one


class Measured(NamedTuple):
    seconds: list[float]  # one a round
    memory: float  # MB that were in use at once, above what the process had before its first step

    def ratio(self, other: Measured) -> float:
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


def _status(key: str) -> float:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key))


def _work(build: Build, steps: int, warm_up: int, threads: int, pipe: Connection) -> None:
    import torch

    torch.set_num_threads(threads)
    step = build()
    for _ in range(warm_up):
        step()
    pipe.send(None)
    while pipe.recv():
        start = time.perf_counter()
        for _ in range(steps):
            step()
        pipe.send((time.perf_counter() - start) / steps)


def _weigh(build: Build, threads: int, pipe: Connection) -> None:
    import torch

    torch.set_num_threads(threads)
    step = build()
    gc.collect()
    before = _status("VmRSS")
    for _ in range(2):
        step()
    pipe.send(_status("VmHWM") - before)


GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # what is free goes back to the system: what is left is in use


@contextlib.contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Start processes with these settings in place of those of zoo-train's own environment."""
    from zoo.cli.train import ENVIRONMENT

    before = dict(os.environ)
    for name in ENVIRONMENT:
        os.environ.pop(name, None)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def compare(
    arms: Mapping[str, Build],
    *,
    rounds: int = 7,
    steps: int = 1,
    warm_up: int = 2,
    threads: int = 2,
    as_they_come: Collection[str] = (),
) -> dict[str, Measured]:
    """Seconds a step of every arm in every round, and the memory it took.

    Arms run in the environment that `tools/run` and the commands set; those that are named run without it.
    """
    from zoo.cli.train import ENVIRONMENT

    pipes, workers = {}, []
    memory: dict[str, float] = {}
    for name, build in arms.items():  # one after the other: warm-up must not compete
        weigher, pipe = _start(_weigh, (build, threads), GIVE_BACK)
        memory[name] = _answer(pipe, name)
        weigher.join()
        worker, pipe = _start(_work, (build, steps, warm_up, threads), {} if name in as_they_come else ENVIRONMENT)
        _answer(pipe, name)
        pipes[name] = pipe
        workers.append(worker)
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(rounds):
        for name, pipe in pipes.items():
            pipe.send(True)
            seconds[name].append(pipe.recv())
    for pipe in pipes.values():
        pipe.send(False)
    for worker in workers:
        worker.join()
    return {name: Measured(seconds[name], memory[name]) for name in arms}


def _start(
    work: Callable[..., None], given: tuple[object, ...], settings: Mapping[str, str]
) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(*given, theirs), daemon=True)
    with _environment(settings):
        process.start()
    theirs.close()
    return process, ours


def _answer(pipe: Connection, name: str) -> float:
    try:
        return pipe.recv()
    except EOFError:
        raise SystemExit(f"{name} failed: see above") from None
