"""What a bench has still to do, over all seeds, the test split and the costs, and how long that should take."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from zoo.bench.arms import Job
from zoo.bench.store import is_tuning
from zoo.runs.metrics import last_step
from zoo.system.clock import duration
from zoo.system.table import counted

Say = Callable[[str], None]

TEST = 0.05  # of a run's work: its pass over the test split
COST = 75.0  # seconds to measure an arm's time and memory, its evaluation and its decoding
SHOWN = 9  # runs under way, beside the first, that a line of progress names
EVERY = 60.0  # seconds between two lines where nobody watches a terminal


class Running(NamedTuple):
    """A run under way."""

    job: Job
    folder: Path
    began: float  # by the monotonic clock


class Schedule:
    """The work of a bench: what is done, what is under way, what is left. Work is counted in FLOPs, costs in seconds."""

    def __init__(
        self,
        runs: Sequence[Job],
        *,
        tested: int = 0,
        measured: int = 0,
        at_a_time: int = 1,
        say: Say = print,
        step: Callable[[Path], int] | None = None,
    ) -> None:
        """`tested` runs are to go through the test split, the costs of `measured` arms to be measured.

        `step` gives the last step of the run in a folder, where the folder itself is not here.
        """
        self.todo = {job.key: job for job in runs}
        self.tested, self.measured, self.at_a_time = tested, measured, at_a_time
        self.total, self.ended, self.done = len(self.todo), 0, 0.0
        self.mean = sum(map(_work, self.todo.values())) / max(1, self.total)
        self.running: dict[str, Running] = {}
        self._say = say
        self._step = step or last_step
        self._watched = sys.stderr.isatty()
        self._began = self._last_line = time.monotonic()

    def __enter__(self) -> Schedule:
        parts = [f"{counted(self.total, 'run')} to train, {self.at_a_time} at a time"] if self.total else []
        parts += [f"the test split for {counted(self.tested, 'run')}"] if self.tested else []
        parts += [f"time and memory of {counted(self.measured, 'arm')}"] if self.measured else []
        if parts:
            self.say("; then ".join(parts))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def say(self, text: str) -> None:
        """Print a line, above the one that moves."""
        self._clear()
        self._say(text)

    def start(self, job: Job, folder: Path) -> None:
        """Note that a run begins."""
        if job.key not in self.todo:  # at another learning rate than it looked at first
            same = [key for key, each in self.todo.items() if (each.arm.id, each.seed) == (job.arm.id, job.seed)]
            if same and not is_tuning(job.seed):
                del self.todo[same[0]]
            else:
                self.total += 1
            self.todo[job.key] = job
        self.running[job.key] = Running(job, folder, time.monotonic())

    def seconds(self, job: Job) -> float:
        """The time since a run that is under way began."""
        return time.monotonic() - self.running[job.key].began

    def after(self, job: Job) -> str:
        """Note that a run has ended; how much is left, to end a line with."""
        self.skip(job)
        self.done += _work(job)
        return f"; run {self.ended} of {self.total}{self._left()}"

    def skip(self, job: Job) -> None:
        """Note that a run will not be made, or was made in vain."""
        self.running.pop(job.key, None)
        if self.todo.pop(job.key, None) is not None:
            self.ended += 1

    def after_cost(self) -> str:
        """Note that an arm's costs were measured; how much is left, to end a line with."""
        self.measured = max(0, self.measured - 1)
        return f"; about {duration(COST * self.measured)} left" if self.measured else ""

    def after_tests(self, count: int) -> None:
        """Note that so many runs have been on the test split, or cannot be."""
        self.tested = max(0, self.tested - count)

    def tick(self) -> None:
        """Show how far the runs under way have come: on a terminal always, elsewhere now and then."""
        now = time.monotonic()
        if not self.running or (not self._watched and now - self._last_line < EVERY):
            return
        self._last_line = now
        first, *others = [self._position(each) for each in self.running.values()]
        more = f" (and {len(others)} more)" if others else ""
        text = f"run {self.ended + 1} of {self.total}{more}: {first}{self._left()}"
        text += "".join(f"; {each}" for each in others[:SHOWN])
        if self._watched:
            width = shutil.get_terminal_size().columns - 1
            line = text if len(text) <= width else text[: width - 1] + "…"
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            self._say(text)

    def _position(self, running: Running) -> str:
        job = running.job
        return f"{job.arm.name} (seed {job.seed}), step {self._step(running.folder)} of {job.arm.steps}"

    def _part(self, running: Running) -> float:
        return min(1.0, self._step(running.folder) / max(1, running.job.arm.steps))

    def _left(self) -> str:
        """The time that the rest should take, by how fast the bench has been; unknown at its beginning."""
        under_way = sum(_work(each.job) * self._part(each) for each in self.running.values())
        done = self.done + under_way
        if done <= 0:
            return ""
        pace = (time.monotonic() - self._began) / done  # with as many at a time as there are
        left = sum(map(_work, self.todo.values())) - under_way + TEST * self.mean * self.tested
        seconds = pace * left + COST * self.measured
        return f", about {duration(seconds)} left" if self.todo or self.tested or self.measured else ""

    def _clear(self) -> None:
        if self._watched:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _work(job: Job) -> float:
    return job.arm.steps * job.arm.flops
