"""What carries out the tasks of a bench: the `Launcher` interface, and processes on this machine.

The bench decides what is run: a module and its arguments. A launcher decides where and in which environment, and knows
nothing of arms, runs or results. One for a cluster implements `Launcher` and is given to `run_bench`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from zoo.bench.devices import VISIBLE
from zoo.runs.metrics import last_step
from zoo.training.signals import BENCH

TRAIN = "zoo.cli.train"  # known by name: a bench starts these two modules and never imports them
TEST_SPLIT = "zoo.bench.test_split"
STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
LAST_LINES = 12  # of what a task printed, for its failure


@dataclass(frozen=True, kw_only=True)
class Task:
    """A Python module to run in a process of its own, as `python -m MODULE ARGUMENTS` does."""

    title: str
    module: str
    arguments: tuple[str, ...]
    cores: int
    folders: tuple[Path, ...] = ()  # of the runs that it works in
    accelerated: bool = True  # it uses a GPU where there is one


class Failure(NamedTuple):
    """Why a task did not succeed."""

    reason: str  # the exit code, or a few words
    last_lines: str  # of what it printed

    def of(self, title: str) -> str:
        """The failure of the task with this title, in words."""
        return f"{title} failed ({self.reason}):\n{self.last_lines}"


class Ending(NamedTuple):
    """A task that has ended."""

    task: Task
    failure: Failure | None = None  # None: it succeeded


class Launcher(Protocol):
    """What carries out tasks, several at a time. It serves one bench; only one thread calls it."""

    @property
    def capacity(self) -> int:
        """The number of tasks that run at a time; a bench has no more than these submitted."""

    @property
    def cores(self) -> int:
        """The cores that each of so many tasks can have."""

    @property
    def measures(self) -> bool:
        """Whether this machine is the one of the runs, so that time and memory of a step can be measured on it."""

    def submit(self, task: Task) -> None:
        """Begin a task, or queue it, without waiting for it."""

    def wait(self, seconds: float) -> Sequence[Ending]:
        """The tasks that have ended since the last call: waits for the first, at most for so many seconds."""

    def stop(self) -> None:
        """Terminate what runs, so that runs save, and return when all is over; without any task, only return."""

    def fetch(self, folder: Path) -> None:
        """Bring what a run has left elsewhere to its folder here, without its checkpoints."""

    def under_way(self, folder: Path) -> bool:
        """Whether a run that an earlier bench began is still trained there: to submit its task is then to wait for it."""

    def step(self, folder: Path) -> int:
        """The last step that the run in a folder has logged."""


class LocalLauncher:
    """Processes on this machine, each with its share of the cores; they end with the bench, however it ends.

    With GPUs each task has one of them, and none has more than `per_device` tasks at a time: further tasks wait.
    """

    def __init__(self, capacity: int = 1, devices: Sequence[str] = (), per_device: int = 1) -> None:
        self.capacity, self.measures = capacity, True
        self._shared = bool(devices)
        self._free: queue.SimpleQueue[str] = queue.SimpleQueue()  # a device is in it as often as it takes tasks
        for device in [*devices] * per_device:
            self._free.put(device)
        self.cores = max(1, _available_cores() // capacity)
        self._watchers = ThreadPoolExecutor(capacity)  # one thread waits for each process
        self._endings: set[Future[Ending]] = set()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._stopping = False

    def submit(self, task: Task) -> None:
        self._endings.add(self._watchers.submit(self._run, task))

    def wait(self, seconds: float) -> list[Ending]:
        ended, self._endings = wait(self._endings, timeout=seconds, return_when=FIRST_COMPLETED)
        return [future.result() for future in ended]

    def stop(self) -> None:
        self._stopping = True
        self._watchers.shutdown(wait=False, cancel_futures=True)
        for child in list(self._children):
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
        self._watchers.shutdown(wait=True)

    def fetch(self, folder: Path) -> None:
        pass  # it is here

    def under_way(self, folder: Path) -> bool:
        return False  # they ended with their bench

    def step(self, folder: Path) -> int:
        return last_step(folder)

    @contextlib.contextmanager
    def _device(self, task: Task) -> Iterator[str | None]:
        """A GPU for a task, "" for one that needs none; None: this machine has none to share out."""
        if not self._shared or not task.accelerated:
            yield "" if self._shared else None
            return
        device = self._free.get()
        try:
            yield device
        finally:
            self._free.put(device)

    def _run(self, task: Task) -> Ending:
        with tempfile.TemporaryFile("w+", errors="replace") as printed:  # a pipe would break with the bench
            try:
                with self._device(task) as device:
                    code = self._exit_code(task, printed.fileno(), device)
            except OSError as error:
                return Ending(task, Failure(type(error).__name__, str(error)))
            if code == 0:
                return Ending(task)
            printed.seek(0)
            return Ending(task, Failure(str(code), last_lines(printed.read())))

    def _exit_code(self, task: Task, printed: int, device: str | None) -> int:
        with subprocess.Popen(
            [sys.executable, "-m", task.module, *task.arguments],
            env=task_environment(task.cores, device),
            stdin=subprocess.PIPE,  # ends with the bench: see zoo.training.signals.end_with_bench
            stdout=subprocess.DEVNULL,
            stderr=printed,
            start_new_session=True,  # Ctrl-C reaches the bench alone, which then stops its tasks
        ) as child:
            self._children.add(child)
            if self._stopping:  # stop() may have looked just before
                child.terminate()
            try:
                return child.wait()
            finally:
                self._children.discard(child)


@contextlib.contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt also when the bench is terminated or its terminal is closed, so that its runs save."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    heeded = [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores some
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def task_environment(cores: int, device: str | None = None) -> dict[str, str]:
    """The environment of a task: its share of the cores, its GPU, and a `sys.path` without the working directory."""
    gpu = {} if device is None else {VISIBLE: device}
    return {**os.environ, "OMP_NUM_THREADS": str(cores), "PYTHONSAFEPATH": "1", BENCH: "1", **gpu}


def last_lines(printed: str) -> str:
    """The end of what a task printed."""
    return "\n".join(printed.strip().splitlines()[-LAST_LINES:])
