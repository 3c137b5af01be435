"""Time and memory of several things against each other on a shared, noisy machine.

Each arm lives in a process of its own, with an allocator of its own; rounds are interleaved, and only ratios within a
round count.
"""

from __future__ import annotations

import contextlib
import gc
import math
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple

from zoo.errors import ZooError

Step = Callable[[], object]
Build = Callable[[], Step]  # must be picklable: a function of a module, or a partial of one

GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # what is free goes back to the system: what is left is in use

PAUSE = 0.01  # seconds between turns: the threads of the one before wait for more by spinning, for a while


class Measured(NamedTuple):
    seconds: list[float]  # of a step, one a round
    memory: float  # MB that were in use at once, above what the process had before its first step; NaN: unknown

    def ratio(self, other: Measured) -> float:
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


class Worker:
    """A process that has built something and makes steps of it when it is asked to."""

    def __init__(
        self, name: str, build: Build, *, threads: int, warm_up: int = 2, settings: Mapping[str, str] | None = None
    ) -> None:
        """`settings` are those of the C library's allocator; without them, as the commands set it."""
        from zoo.cli.train import ENVIRONMENT

        self.name = name
        given = (build, warm_up, threads)
        self._process, self._pipe = _start(_work, given, ENVIRONMENT if settings is None else settings)
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def time(self, steps: int) -> float:
        """Seconds of a step, over so many."""
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
        return _answer(self._pipe, self.name)


def weigh(name: str, build: Build, threads: int) -> float:
    """MB that two steps had in use at once, above what was there before the first."""
    process, pipe = _start(_weigh, (build, threads), GIVE_BACK)
    try:
        return float(_answer(pipe, name))
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
) -> dict[str, Measured]:
    """Seconds a step of every arm in every round, and the memory it took.

    Arms run in the environment that `tools/run` and the commands set; those that are named run without it.
    """
    with contextlib.ExitStack() as stack:
        memory, workers = {}, {}
        for name, build in arms.items():  # one after the other: warm-up must not compete
            memory[name] = weigh(name, build, threads)
            settings: dict[str, str] | None = {} if name in as_they_come else None
            worker = Worker(name, build, threads=threads, warm_up=warm_up, settings=settings)
            workers[name] = stack.enter_context(worker)
        seconds: dict[str, list[float]] = {name: [] for name in arms}
        for _ in range(rounds):
            for name, worker in workers.items():
                seconds[name].append(worker.time(steps))
    return {name: Measured(seconds[name], memory[name]) for name in arms}


def in_turns(one: Worker, other: Worker, rounds: int, patience: float = 20.0) -> list[tuple[float, float]]:
    """Seconds a step of both, round by round; of slow steps fewer rounds, so that it takes about so many seconds.

    Rounds are short and many: what else happens on the machine then mostly meets both.
    """
    both = one.time(1) + other.time(1)
    steps = max(1, math.ceil(0.1 / both))
    rounds = max(5, min(rounds, int(patience / (steps * both))))
    found = []
    for turn in range(rounds):  # neither is always the first
        if turn % 2:
            second = other.time(steps)
            found.append((one.time(steps), second))
        else:
            found.append((one.time(steps), other.time(steps)))
    return found


# --- in the processes


def _work(build: Build, warm_up: int, threads: int, pipe: Connection) -> None:
    with _telling(pipe):
        step = _prepared(build, threads)
        for _ in range(warm_up):
            step()
        pipe.send(None)
        while steps := pipe.recv():
            start = time.perf_counter()
            for _ in range(steps):
                step()
            _finish()
            pipe.send((time.perf_counter() - start) / steps)


def _weigh(build: Build, threads: int, pipe: Connection) -> None:
    from zoo.versions import memory_in_use, peak_memory

    with _telling(pipe):
        step = _prepared(build, threads)
        gc.collect()
        before = memory_in_use(_device())
        for _ in range(2):
            step()
        _finish()
        pipe.send(math.nan if before is None else (peak_memory(_device()) - before) / (1 << 20))


@contextlib.contextmanager
def _telling(pipe: Connection) -> Iterator[None]:
    """What fails here is told there; that nobody listens any more is the end."""
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            yield
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:
            pipe.send(error if isinstance(error, ZooError) else ZooError(f"{type(error).__name__}: {error}"))


def _prepared(build: Build, threads: int) -> Step:
    import torch

    torch.set_num_threads(threads)
    return build()


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_initialized() else "cpu"


def _finish() -> None:
    """A GPU goes on after the call has returned."""
    if _device() == "cuda":
        import torch

        torch.cuda.synchronize()


# --- starting them


def _start(
    work: Callable[..., None], given: tuple[object, ...], settings: Mapping[str, str]
) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(*given, theirs), daemon=True)
    resource_tracker.ensure_running()  # else the start below would start it, which unblocks the signal again
    # Ctrl-C is for us, who end it: it inherits that it does not listen.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _environment(settings):
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return process, ours


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


def _answer(pipe: Connection, name: str) -> Any:
    try:
        answer = pipe.recv()
    except (EOFError, ConnectionResetError):
        answer = ZooError("its process died")
    if isinstance(answer, ZooError):
        raise ZooError(f"{name} cannot be measured: {answer}")
    return answer
