"""A bench on a real Slurm of one node: arrays, preemption, requeueing, a lost job, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import tiny_training
from helpers.broken_bench import figures, runs_of
from helpers.one_node_slurm import missing, one_node_slurm

from zoo.bench.launch import Ending, Task
from zoo.engines.engine import Resources
from zoo.engines.launcher import EngineLauncher
from zoo.engines.slurm_engine import slurm_engine

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with one_node_slurm(tmp_path_factory.mktemp("slurm") / "slurm") as environment:
        yield environment


def command(settings: list[str], store: Path, *flags: str) -> list[str]:
    longer = [
        each for each in settings if not each.startswith(("train.steps", "train.save_every", "train.validate_every"))
    ]
    longer += ["train.steps = 1500", "train.save_every = 10", "train.validate_every = 750", "suite.control_seeds = 2"]
    bench = [sys.executable, "-m", "zoo.cli.bench", "--gin", "v1_m3", "--seeds", "2", "--store", str(store)]
    return [*bench, *flags, "--set", *longer]


def jobs(slurm: dict[str, str]) -> list[str]:
    """The ids of the jobs that run."""
    done = subprocess.run(["squeue", "-h", "-r", "-t", "R", "-o", "%i"], env=slurm, capture_output=True, text=True)
    return done.stdout.split()


def test_jobs_that_are_preempted_requeued_and_cancelled(
    slurm: dict[str, str], settings: list[str], tmp_path: Path
) -> None:
    alone, store, log = tmp_path / "alone", tmp_path / "bench", tmp_path / "log.txt"
    subprocess.run(command(settings, alone, "--jobs", "2"), check=True, capture_output=True, timeout=900)
    flags = ("--on", "slurm", "--slurm", "partition=small,time=10", "--jobs", "2")
    breaks = [["scancel", "--signal=USR2"], ["scontrol", "requeue"], ["scancel"], ["scancel", "--signal=USR2"]]
    until = time.monotonic() + 1200
    with log.open("wb") as file:
        bench = subprocess.Popen(command(settings, store, *flags), env=slurm, stdout=file, stderr=file)
        try:
            while bench.poll() is None and time.monotonic() < until:
                time.sleep(4.0)
                running = jobs(slurm)
                if breaks and running and runs_of(store):
                    subprocess.run([*breaks.pop(0), running[0]], env=slurm, check=True)
        finally:
            bench.kill()
            bench.wait()
    text = log.read_text()
    print(text)
    assert bench.returncode == 0 and not breaks, text
    assert figures(store) == figures(alone) and len(figures(store)) == 4
    assert "started again" in text  # the job that was cancelled; Slurm itself queued the others again
    assert list((store / "engine" / "submitit").glob("*_0_log.out")), "there was no array"


@pytest.mark.parametrize("reason", ["preemption", "the end of its time"])
def test_slurm_itself_takes_a_job_off_its_node_and_queues_it_again(
    reason: str, slurm: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is told, saves, and goes on in the same job, though nobody submits it again."""
    for name, value in {**slurm, "PYTHONPATH": str(Path(__file__).parents[1] / "scripts")}.items():
        monkeypatch.setenv(name, value)
    store, lines = tmp_path / "store", list[str]()
    folder = store / "runs" / "one"
    minutes = "30" if reason == "preemption" else "3"
    engine = slurm_engine(store, {"partition": "small", "time": minutes}, Resources(), 1)
    launcher = EngineLauncher(engine, store, capacity=1, cores=1, say=lines.append)
    launcher.submit(Task(title="one", module="saving_task", arguments=(str(folder),), cores=1, folders=(folder,)))
    endings: list[Ending] = []
    until, is_told = time.monotonic() + 600, reason != "preemption"
    while not endings and time.monotonic() < until:
        endings += launcher.wait(1.0)
        if not is_told and (folder / "started").exists():
            urgent = ["sbatch", "--partition=urgent", "--exclusive", "--output=/dev/null", "--wrap=sleep 5"]
            subprocess.run(urgent, check=True, capture_output=True, cwd=tmp_path)
            is_told = True
    launcher.stop()
    assert [ending.failure for ending in endings] == [None], lines
    assert (folder / "saved").exists() and (folder / "resumed").exists() and not (folder / "hears").exists()
    assert not any("started again" in line for line in lines)  # by the bench: Slurm did it


def test_the_tasks_of_srun_are_the_ranks_of_one_run(slurm: dict[str, str], tmp_path: Path) -> None:
    corpus = tiny_training.write_corpus(tmp_path)
    settings = [f"data.corpus='{corpus}'", f"data.cache='{tmp_path / 'cache'}'", "train.device='cpu'", "train.steps=6"]
    train = [sys.executable, "-m", "zoo.cli.train", "--gin", "sizes/tiny", "--run", str(tmp_path / "run")]
    words = [
        "srun",
        "--partition=urgent",
        "--ntasks=2",
        "--time=5",
        *train,
        "--set",
        "train.parallel='fsdp'",
        *settings,
    ]
    done = subprocess.run(words, env={**slurm, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["world_size"]) == ("finished", 2)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--slurm", "partition=smal"], "Slurm has no partition smal (nearest: small); it has small, urgent"),
        (["--gpus-per-run", "1"], "no node of Slurm has 1 CPUs and 1 GPUs for a run"),
        (["--cpus-per-run", "64"], "no node of Slurm has 64 CPUs and 0 GPUs for a run"),
        (["--slurm", "time=soon"], "--slurm time=soon: write minutes"),
        (["--slurm", "prtition=small"], "--slurm prtition: there is no such option (nearest: partition"),
    ],
)
def test_what_slurm_does_not_have_is_refused(
    flags: list[str], sentence: str, slurm: dict[str, str], settings: list[str], tmp_path: Path
) -> None:
    words = command(settings, tmp_path / "bench", "--on", "slurm", *flags)
    done = subprocess.run(words, env=slurm, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "bench").exists()
