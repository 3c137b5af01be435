"""Slurm as an engine: jobs by submitit's local executor, and Slurm's commands as it would answer them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.local_queue import children, local_engine
from helpers.pretend_engine import QUICK

from zoo.bench.launch import Ending, Task
from zoo.engines import slurm_engine as slurm
from zoo.engines.engine import Resources, Start
from zoo.engines.launcher import EngineLauncher
from zoo.engines.slurm_engine import SlurmQueue, SubmititEngine, check_partition, check_store, gpu_count, minutes
from zoo.errors import ZooError

SCRIPTS = Path(__file__).parents[1] / "scripts"


def test_a_job_that_is_preempted_saves_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGUSR2 reaches the job and all its processes, as Slurm sends it; submitit queues the same job again."""
    monkeypatch.setenv("PYTHONPATH", str(SCRIPTS))
    store, folder, lines = tmp_path / "store", tmp_path / "store" / "runs" / "one", list[str]()
    engine = local_engine(store)
    launcher = EngineLauncher(engine, store, capacity=2, cores=1, say=lines.append, patience=replace(QUICK, lost=60.0))
    launcher.submit(Task(title="one", module="saving_task", arguments=(str(folder),), cores=1, folders=(folder,)))
    until = time.monotonic() + 60
    while not (folder / "started").exists():
        assert time.monotonic() < until and not launcher.wait(0.1), "it took too long"
    (controller,) = _jobs(store)
    for pid in children(controller):
        os.kill(pid, signal.SIGUSR2)
    endings: list[Ending] = []
    while not endings:
        assert time.monotonic() < until, "it took too long"
        endings += launcher.wait(0.2)
    launcher.stop()
    assert endings[0].failure is None and not (folder / "hears").exists()
    assert (folder / "resumed").exists() and not any("started again" in line for line in lines)  # Slurm did it


def _jobs(store: Path) -> list[int]:
    names = {path.name.split("_")[0] for path in (store / slurm.FOLDER).glob("*_log.out")}
    return [int(name) for name in names]


def test_several_jobs_are_an_array() -> None:
    class Executor:
        batches = 0

        def batch(self) -> Executor:
            self.batches += 1
            return self

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

        def submit(self, attempt: object) -> SimpleNamespace:
            return SimpleNamespace(job_id=f"7_{id(attempt) % 10}")

    executor = Executor()
    engine = SubmititEngine(executor, SlurmQueue(), "/store")
    assert len(engine.start([Start("a", 1, True)])) == 1 and executor.batches == 0
    assert len(engine.start([Start("a", 1, True), Start("b", 1, True)])) == 2 and executor.batches == 1


def test_a_busy_slurm_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "PAUSE", 0.0)
    tries: list[int] = []

    def submit(attempt: object) -> SimpleNamespace:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("sbatch: error: Batch job submission failed: Socket timed out")
        return SimpleNamespace(job_id="8")

    executor = SimpleNamespace(submit=submit)
    assert SubmititEngine(executor, SlurmQueue(), "/store").start([Start("a", 1, True)]) == ["8"]
    executor.submit = lambda attempt: (_ for _ in ()).throw(RuntimeError("sbatch: error: no such account"))
    with pytest.raises(ZooError, match="Slurm takes no jobs: sbatch: error: no such account"):
        SubmititEngine(executor, SlurmQueue(), "/store").start([Start("a", 1, True)])


def test_what_squeue_says(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["5_0 PENDING\n5_1 RUNNING\n5_2 SUSPENDED\n", ZooError("busy"), "5_1 COMPLETING\n"])

    def command(*words: str) -> str:
        if isinstance(answer := next(answers), ZooError):
            raise answer
        return answer

    monkeypatch.setattr(slurm, "command", command)
    monkeypatch.setattr(slurm, "LOOK", 0.0)
    queue, handles = SlurmQueue(), ["5_0", "5_1", "5_2", "4"]
    first = {"5_0": "waiting", "5_1": "running", "5_2": "waiting", "4": "gone"}
    assert queue.states(handles) == first
    assert queue.states(handles) == first  # it did not answer: what was known stays
    assert queue.states(["5_1", "5_0"]) == {"5_1": "running", "5_0": "gone"}


def test_a_job_that_is_newer_than_the_last_look_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "command", lambda *words: "5 RUNNING\n")
    monkeypatch.setattr(slurm, "LOOK", 3600.0)
    queue = SlurmQueue()
    assert queue.states(["5", "4"]) == {"5": "running", "4": "gone"}
    assert queue.states(["5", "6"]) == {"5": "running", "6": "running"}  # nobody has looked since


def test_a_silent_squeue_makes_nobody_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "command", lambda *words: (_ for _ in ()).throw(ZooError("busy")))
    assert SlurmQueue().states(["5"]) == {"5": "running"}


NODES = "cpu|64|(null)\ngpu|32+|gpu:a100:4(S:0-1)\n"


@pytest.mark.parametrize(
    ("partition", "resources", "sentence"),
    [
        (None, Resources(64), ""),
        ("gpu", Resources(8, 4), ""),
        ("gpus", Resources(), r"Slurm has no partition gpus \(nearest: gpu\); it has cpu, gpu"),
        ("cpu", Resources(1, 1), "no node of Slurm in cpu has 1 CPUs and 1 GPUs .*at most 64 CPUs, 0 GPUs"),
        (None, Resources(40, 1), "no node of Slurm has 40 CPUs and 1 GPUs"),
        (None, Resources(1, 8), "no node of Slurm has 1 CPUs and 8 GPUs"),
    ],
)
def test_partitions_and_nodes(
    partition: str | None, resources: Resources, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "command", lambda *words: NODES)
    if not sentence:
        return check_partition(partition, resources)
    with pytest.raises(ZooError, match=sentence):
        check_partition(partition, resources)


def test_a_machine_without_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ZooError, match="needs Slurm's commands on this machine: there is no sinfo"):
        slurm.slurm_engine(tmp_path, {}, Resources(), None)
    with pytest.raises(ZooError, match=r"--slurm patition: there is no such option \(nearest: partition"):
        slurm.slurm_engine(tmp_path, {"patition": "x"}, Resources(), None)
    monkeypatch.setattr(slurm, "command", lambda *words: NODES)
    with pytest.raises(ZooError, match="there is no srun"):
        slurm.slurm_engine(tmp_path, {}, Resources(), None)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "submitit", None)
    with pytest.raises(ZooError, match=r"pip install 'transformer-zoo\[slurm\]'"):
        slurm.imported_submitit()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("4:00:00", 240), ("10:30", 11), ("1-0", 1440), ("1-2:30", 1590), ("2-00:00:01", 2881), ("0:2:1", 3)],
)
def test_time_limits(text: str, expected: int) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["soon", "", "4h", "-1", "0", "2", "1:2:3:4"])
def test_time_limits_that_are_none(text: str) -> None:
    with pytest.raises(ZooError, match="--slurm time="):
        minutes(text)


@pytest.mark.parametrize(
    ("text", "count"), [("(null)", 0), ("gpu:4", 4), ("gpu:a100:8(S:0-1)", 8), ("gpu:a:2,gpu:b:1,shard:9", 3)]
)
def test_gpus_of_a_node(text: str, count: int) -> None:
    assert gpu_count(text) == count


def test_a_store_that_nodes_do_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    answers = iter(
        [
            subprocess.CompletedProcess(
                [], 1, "", "srun: error: Unable to allocate resources: Immediate execution impossible"
            ),
            subprocess.CompletedProcess([], 1, "", "cp: cannot stat '/laptop/store': No such file or directory"),
        ]
    )
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: next(answers))
    check_store(tmp_path, None, lines.append)
    assert "no node of Slurm was free to look" in lines[0]
    with pytest.raises(ZooError, match="is not seen by the nodes of Slurm"):
        check_store(tmp_path, None, lines.append)
    assert list(tmp_path.iterdir()) == []


def test_sigterm_is_preemption_only_where_slurm_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    try:
        for state, expected in (("RUNNING", [signal.SIGTERM]), ("COMPLETING", []), ("CANCELLED", [])):
            monkeypatch.setattr(slurm, "command", lambda *_, state=state: f"JobId=7 JobState={state} Reason=None")
            signal.signal(signal.SIGUSR2, lambda number, _: told.append(number))
            told.clear()
            slurm._on_sigterm(signal.SIGTERM, None)
            assert told == expected, state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    monkeypatch.setattr(slurm, "command", lambda *_: (_ for _ in ()).throw(ZooError("Slurm does not answer")))
    assert not slurm.is_preempted("7")
