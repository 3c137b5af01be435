"""submitit's local executor in the place of Slurm: jobs are processes, which are asked after by their ids."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path

import submitit

from zoo.engines.engine import State
from zoo.engines.slurm_engine import FOLDER, RESTARTS, SubmititEngine


class LocalQueue:
    """The processes of submitit's jobs, also of those that an earlier bench has submitted."""

    def states(self, handles: Collection[str]) -> dict[str, State]:
        return {handle: "running" if controls(handle) else "gone" for handle in handles}

    def kill(self, handle: str) -> None:
        """What scancel does: the job and what it has started are gone."""
        for pid in (int(handle), *children(int(handle))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def local_engine(store: Path, capacity: int = 2) -> SubmititEngine:
    """An engine whose jobs are processes of this machine."""
    executor = submitit.LocalExecutor(store / FOLDER, max_num_timeout=RESTARTS)
    executor.update_parameters(timeout_min=60)
    return SubmititEngine(executor, LocalQueue(), str(store), capacity)


def controls(handle: str) -> bool:
    """Whether this is the id of a process of submitit that lives."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{handle}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" and b"submitit" in Path(f"/proc/{handle}/cmdline").read_bytes()
    return False


def children(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *children(child)]
    return found
