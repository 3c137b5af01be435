"""Slurm as an engine, through submitit: attempts are jobs, several together an array.

Before its time is up Slurm sends SIGUSR2 (not SIGUSR1, which NCCL takes for itself), on preemption that or SIGTERM: the run
saves and stops, and Slurm puts the job back into its queue. What ends in any other way, the bench starts again.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from zoo.engines.attempt import Carrier
from zoo.engines.engine import Resources, Start, State
from zoo.errors import ZooError, nearest

FOLDER = "engine/submitit"  # what submitit keeps: how to begin each job, and what jobs print before they do
MANY = 1000  # jobs at a time, unless --jobs says otherwise: Slurm itself decides how many run
RESTARTS = 1_000_000  # how often a job may use up its time: as long as there are checkpoints it goes on
MINUTES = 60  # of a job, unless --slurm time=… says otherwise; a run that needs more goes on in the next
DELAY = 90  # seconds before the end of its time at which a job is told, or a third of its time
SHORTEST = 3  # minutes: Slurm may tell a job a minute earlier than asked, and a run needs time to start
LOOK = 5.0  # seconds for which what squeue said is believed
TRIES, PAUSE = 3, 10.0  # of submitting, when Slurm is busy
ANSWER = 60.0  # seconds for a command of Slurm
MISSING = "--on slurm needs Slurm's commands on this machine: there is no {}"
QUEUED = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SUSPENDED", "STOPPED", "RESV_DEL_HOLD")


class SlurmAttempt:
    """What submitit starts on a node, again and again until the attempt is over."""

    def __init__(self, address: str, name: str, number: int) -> None:
        self._start = address, name, number
        self._carrier: Carrier | None = None

    def __call__(self) -> int:
        self._carrier = Carrier(*self._start, deaf=True)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _on_sigterm)
        return self._carrier.run()

    def checkpoint(self) -> Any:
        """Called by submitit before the job is taken off its node: save, and be queued again."""
        from submitit.helpers import DelayedSubmission

        if self._carrier:
            self._carrier.interrupt()
        return DelayedSubmission(SlurmAttempt(*self._start))


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """On a node: a job that is preempted does what submitit does on SIGUSR2; one that was cancelled is killed soon."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it comes again when the grace is over
    go_on_later = signal.getsignal(signal.SIGUSR2)
    if callable(go_on_later) and is_preempted(os.environ.get("SLURM_JOB_ID", "")):
        go_on_later(number, frame)


def is_preempted(job: str) -> bool:
    """Whether a job that got SIGTERM still counts as running: until the grace is over. One that was cancelled does not."""
    try:
        told = command("scontrol", "show", "job", job)
    except ZooError:  # a busy controller: as without the signal, it goes on from its last checkpoint
        return False
    return "JobState=RUNNING" in told


class Queue(Protocol):
    """Where submitted jobs are."""

    def states(self, handles: Collection[str]) -> Mapping[str, State]:
        """What is known of these jobs."""

    def kill(self, handle: str) -> None:
        """End a job, or take it out of the queue."""


class SlurmQueue:
    """Slurm's own queue, by its commands."""

    def __init__(self) -> None:
        self._looked, self._words = -math.inf, dict[str, str]()
        self._asked: dict[str, float] = {}  # handle → when it was first asked after
        self._is_known = False  # whether squeue has answered at all

    def states(self, handles: Collection[str]) -> dict[str, State]:
        now = time.monotonic()
        for handle in handles:
            self._asked.setdefault(handle, now)
        if now - self._looked >= LOOK:
            self._look()
        if not self._is_known:
            return dict.fromkeys(handles, "running")
        return {handle: self._state(handle) for handle in handles}

    def kill(self, handle: str) -> None:
        with contextlib.suppress(ZooError):  # it has ended meanwhile
            command("scancel", handle)

    def _state(self, handle: str) -> State:
        if handle not in self._words:  # it may have been submitted since the last look
            return "gone" if self._looked >= self._asked[handle] else "running"
        return "waiting" if self._words[handle] in QUEUED else "running"

    def _look(self) -> None:
        self._looked = time.monotonic()
        try:
            lines = command("squeue", "--me", "--noheader", "--array", "--format=%i %T").splitlines()
        except ZooError:  # a busy controller: what was known stays, and signs of life decide
            return
        self._words = dict(line.split(maxsplit=1) for line in lines if " " in line)
        self._is_known = True


class SubmititEngine:
    """Jobs by an executor of submitit, whose queue says what became of them."""

    name = "slurm"

    def __init__(self, executor: Any, queue: Queue, address: str, capacity: int = MANY) -> None:
        self._executor, self._queue, self._address = executor, queue, address
        self.capacity = capacity

    def start(self, starts: Sequence[Start]) -> list[str]:
        for left in reversed(range(TRIES)):
            try:
                return self._submit(starts)
            except Exception as error:  # submitit passes on whatever sbatch said
                if not left:
                    first = (str(error).strip().splitlines() or [type(error).__name__])[-1]
                    raise ZooError(f"Slurm takes no jobs: {first}; the same command continues the bench") from error
                time.sleep(PAUSE)
        raise AssertionError("unreachable")

    def states(self, handles: Collection[str]) -> Mapping[str, State]:
        return self._queue.states(handles)

    def kill(self, handle: str) -> None:
        self._queue.kill(handle)

    def close(self) -> None:
        pass

    def _submit(self, starts: Sequence[Start]) -> list[str]:
        with self._executor.batch() if len(starts) > 1 else contextlib.nullcontext():
            jobs = [self._executor.submit(SlurmAttempt(self._address, each.name, each.number)) for each in starts]
        return [str(job.job_id) for job in jobs]


def slurm_engine(store: Path, options: Mapping[str, str], resources: Resources, jobs: int | None) -> SubmititEngine:
    """Slurm with these of sbatch's options, after a look at what it has."""
    submitit = imported_submitit()
    known = sorted(submitit.SlurmExecutor._valid_parameters() | {"time"})
    for name in options:
        if name not in known:
            raise ZooError(f"--slurm {name}: there is no such option{nearest(name, known)}")
    check_partition(options.get("partition"), resources)
    if shutil.which("srun") is None:
        raise ZooError(MISSING.format("srun"))
    executor = submitit.SlurmExecutor(folder=store / FOLDER, max_num_timeout=RESTARTS)
    limit = minutes(options["time"]) if "time" in options else MINUTES
    executor.update_parameters(
        **{
            "job_name": "zoo",
            "cpus_per_task": resources.cpus,
            "ntasks_per_node": 1,
            "array_parallelism": jobs or MANY,
            "signal_delay_s": min(DELAY, limit * 20),
            "additional_parameters": {"requeue": True},
            **({"gpus_per_node": int(resources.gpus)} if resources.gpus else {}),
            **options,
            "time": limit,
        }
    )
    return SubmititEngine(executor, SlurmQueue(), str(store), jobs or MANY)


def imported_submitit() -> Any:
    """The module; a sentence where it is not installed."""
    try:
        import submitit
    except ImportError as error:
        raise ZooError("--on slurm needs submitit: pip install 'transformer-zoo[slurm]'") from error
    return submitit


def minutes(text: str) -> int:
    """Slurm's time limits: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S; seconds are rounded up."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not match:
        raise ZooError(f"--slurm time={text}: write minutes, hours:minutes:seconds or days-hours, as for sbatch")
    days, first, second, third = (int(part) if part else 0 for part in match.groups())
    parts = sum(part is not None for part in match.groups()[1:])
    if match[1] or parts == 3:
        hours, full, seconds = first, second, third
    else:
        hours, full, seconds = 0, first, second
    limit = (days * 24 + hours) * 60 + full + -(-seconds // 60)
    if limit < SHORTEST:
        raise ZooError(
            f"--slurm time={text}: a job needs {SHORTEST} minutes or more, as it is told before its time is up"
        )
    return limit


def check_partition(partition: str | None, resources: Resources) -> None:
    """Refuse a partition that Slurm does not have, and what none of its nodes has."""
    rows = [line.split("|") for line in command("sinfo", "--noheader", "--format=%R|%c|%G").splitlines()]
    nodes = [(row[0], int(re.sub(r"\D", "", row[1]) or 0), gpu_count(row[2])) for row in rows if len(row) == 3]
    names = sorted({name for name, _, _ in nodes})
    if partition is not None:
        if partition not in names:
            known = ", ".join(names) or "none"
            raise ZooError(f"Slurm has no partition {partition}{nearest(partition, names)}; it has {known}")
        nodes = [node for node in nodes if node[0] == partition]
    if not any(cpus >= resources.cpus and gpus >= resources.gpus for _, cpus, gpus in nodes):
        most = f"{max((n[1] for n in nodes), default=0)} CPUs, {max((n[2] for n in nodes), default=0)} GPUs"
        raise ZooError(
            f"no node of Slurm{f' in {partition}' if partition else ''} has {resources.cpus} CPUs and {resources.gpus:g}"
            f" GPUs for a run (at most {most}): ask for less with --cpus-per-run or --gpus-per-run"
        )


def gpu_count(text: str) -> int:
    """The GPUs of a node by its generic resources, such as gpu:a100:4(S:0-1)."""
    return sum(int(count) for count in re.findall(r"\bgpu(?::[^:,()]+)?:(\d+)", text))


def check_store(store: Path, partition: str | None, say: Any) -> None:
    """Let a node copy a file in the store, if one is free at once: a store that nodes do not see is refused."""
    folder = store / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f"probe-{time.time_ns()}"
    copy = probe.with_name(f"{probe.name}-copy")
    probe.write_bytes(b"zoo")
    where = [f"--partition={partition}"] if partition else []
    try:
        done = subprocess.run(
            ["srun", "--immediate=10", "--ntasks=1", "--time=1", *where, "cp", str(probe), str(copy)],
            capture_output=True,
            text=True,
            timeout=ANSWER,
        )
        is_seen, reason = copy.exists(), done.stderr.strip()
    except (OSError, subprocess.TimeoutExpired):
        is_seen, reason = False, ""
    finally:
        probe.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # an earlier bench has left something there
            folder.rmdir()
    if is_seen:
        return
    if "cp:" in reason:
        raise ZooError(
            f"the store {store} is not seen by the nodes of Slurm ({reason.splitlines()[0]}): name a folder that they share"
        )
    say(f"no node of Slurm was free to look at {store}: it must be a folder that all of them share")


def command(*words: str) -> str:
    """What a command of Slurm prints; a sentence where it fails or is not there."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ANSWER)
    except FileNotFoundError as error:
        raise ZooError(MISSING.format(words[0])) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ZooError(f"Slurm does not answer: {words[0]}: {error}") from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ZooError(f"Slurm does not answer: {reason}")
    return done.stdout
