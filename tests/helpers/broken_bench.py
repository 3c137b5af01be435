"""A bench that is broken while it runs: its driver, its workers and its runs are killed at random."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.bench.store import Result, Store

TRAIN = b"zoo.cli.train"


def processes(part: bytes) -> list[int]:
    """The processes whose command line has this in it."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and part in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def runs_of(store: Path) -> list[int]:
    """The processes that train runs of this store."""
    found = []
    for pid in processes(str(store).encode()):
        with contextlib.suppress(OSError):
            if TRAIN in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def kill(pid: int) -> None:
    if pid > 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class BrokenBench:
    """A command that is started again until it ends by itself, while things are killed around it."""

    def __init__(self, command: Sequence[str], store: Path, log: Path, seed: int) -> None:
        self.command, self.store, self.log = command, store, log
        self.random = random.Random(seed)
        self.done: list[str] = []  # what was broken
        self.restarts = 5  # of a driver that has died by itself
        self.driver = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen([sys.executable, *self.command], stdout=log, stderr=log)

    def kill_driver(self) -> None:
        self.driver.kill()
        self.driver.wait()
        self.driver = self._start()

    def kill_run(self) -> bool:
        runs = runs_of(self.store)
        if runs:
            kill(self.random.choice(runs))
        return bool(runs)

    def kill_worker(self) -> bool:
        """Kill the process that watches over a run, as an engine that loses it would."""
        workers = [parent(run) for run in runs_of(self.store)]
        if workers:
            kill(self.random.choice(workers))
        return bool(workers)

    def go(self, breaks: Mapping[str, Callable[[], Any]], times: int, seconds: float) -> int:
        """Break so many things, so many seconds apart, each kind in turn, and wait for the end; the exit code."""
        until = time.monotonic() + seconds
        waiting = list(breaks) * -(-times // len(breaks))
        self.random.shuffle(waiting)
        try:
            while self.driver.poll() is None and time.monotonic() < until:
                time.sleep(self.random.uniform(3.0, 9.0))
                if (
                    self.driver.poll() and self.restarts
                ):  # it was on a machine that was lost: whoever sees it starts it again
                    self.restarts -= 1
                    self.driver = self._start()
                if waiting and self.driver.poll() is None and breaks[waiting[-1]]() is not False:
                    self.done.append(waiting.pop())
            assert self.driver.poll() is not None, f"it took too long:\n{self.log.read_text()[-3000:]}"
        finally:
            kill(self.driver.pid) if self.driver.poll() is None else None
        return self.driver.wait()


def figures(store: Path) -> dict[str, tuple[Any, ...]]:
    """Every result of a store that does not depend on clocks, by its key."""

    def of(run: Result) -> tuple[Any, ...]:
        curve = [(step, tokens, loss) for step, tokens, _, loss in run.curve]
        training = [(step, tokens, loss) for step, tokens, _, loss in run.training]
        return run.arm, run.seed, run.status, run.valid_loss, run.test_loss, run.accuracy, curve, training, run.probes

    return {key: of(run) for key, run in Store(store).read().items()}


def lines_by_key(store: Path) -> dict[str, list[tuple[str, bool]]]:
    """Of every key the lines of the store: when the run ended, and whether it was tested."""
    import json

    by_key: dict[str, list[tuple[str, bool]]] = {}
    for line in (store / "results.jsonl").read_text().splitlines():
        row = json.loads(line)
        by_key.setdefault(row["key"], []).append((row["stamps"]["ended"], row["tested"]))
    return by_key
