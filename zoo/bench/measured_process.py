"""A process of its own that makes steps and measures them: what runs in it, how it is started, how it answers."""

from __future__ import annotations

import contextlib
import gc
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from zoo.errors import ZooError

Step = Callable[[], object]
Build = Callable[[], Step]  # must be picklable: a function of a module, or a partial of one


def time_steps(build: Build, warm_up: int, threads: int, cpu: bool, pipe: Connection) -> None:
    """In the process: make as many steps as are asked for, and answer with the seconds per step."""
    clock = time.process_time if cpu else time.perf_counter
    with _errors_sent_to(pipe):
        step = _built(build, threads)
        for _ in range(warm_up):
            step()
        pipe.send(None)
        while steps := pipe.recv():
            start = clock()
            for _ in range(steps):
                step()
            _finish()
            pipe.send((clock() - start) / steps)


def weigh_steps(build: Build, threads: int, pipe: Connection) -> None:
    """In the process: make two steps, and answer with the MB that they needed; NaN where that is unknown."""
    from zoo.system.memory import memory_in_use, peak_memory

    with _errors_sent_to(pipe):
        step = _built(build, threads)
        gc.collect()
        before = memory_in_use(_device())
        for _ in range(2):
            step()
        _finish()
        pipe.send(math.nan if before is None else (peak_memory(_device()) - before) / (1 << 20))


def answer_once(build: Callable[[], Callable[[], float]], threads: int, pipe: Connection) -> None:
    """In the process: answer with the number that what was built gives."""
    with _errors_sent_to(pipe):
        pipe.send(float(_built(build, threads)()))  # type: ignore[arg-type]


@contextlib.contextmanager
def _errors_sent_to(pipe: Connection) -> Iterator[None]:
    """Send what fails to the other end; end quietly once nobody listens there."""
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            yield
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:
            pipe.send(error if isinstance(error, ZooError) else ZooError(f"{type(error).__name__}: {error}"))


def _built(build: Build, threads: int) -> Step:
    import torch

    torch.set_num_threads(threads)
    return build()


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_initialized() else "cpu"


def _finish() -> None:
    """Wait until a GPU is done: it still works after a call has returned."""
    if _device() == "cuda":
        import torch

        torch.cuda.synchronize()


def start(
    work: Callable[..., None], arguments: tuple[object, ...], settings: Mapping[str, str]
) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    """Start one of the functions above in a process with these settings of its allocator; our end of its pipe."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(*arguments, theirs), daemon=True)
    resource_tracker.ensure_running()  # else the start below would start it, which unblocks the signal again
    # The child inherits the mask: only the parent reacts to Ctrl-C, and ends it.
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
    from zoo.system.process import ENVIRONMENT

    before = dict(os.environ)
    for name in ENVIRONMENT:
        os.environ.pop(name, None)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def answer_of(pipe: Connection, name: str) -> Any:
    """The next answer of a process; a ZooError with this name if it failed or died."""
    try:
        answer = pipe.recv()
    except (EOFError, ConnectionResetError):
        answer = ZooError("its process died")
    if isinstance(answer, ZooError):
        raise ZooError(f"{name} cannot be measured: {answer}")
    return answer
