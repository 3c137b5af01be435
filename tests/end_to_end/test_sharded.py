"""Processes of which each holds a part of the model: the same run, whoever holds what, and whoever goes on with it."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers import tiny_training
from helpers.torchrun import run_ranks

from zoo.errors import RunError
from zoo.runs import checkpoint
from zoo.runs.metrics import read_rows
from zoo.training.settings import Settings
from zoo.training.setup import _resized

TESTS = Path(__file__).parents[1]


def alone(base: Path, name: str, before: Callable[[int], None] = tiny_training.nothing, **options: Any) -> Any:
    """A run of the same settings by this process."""
    torch.set_num_threads(1)
    usual = {"parallel": "fsdp", "steps": 20, "validate_every": 10, "log_every": 1, "accumulate": 4, "save_every": 5}
    made = tiny_training.config(base, before=before, **{**usual, **options})
    return tiny_training.go(dataclasses.replace(made, model=tiny_training.without_dropout), base / name)


def stop(batch: int) -> Callable[[int], None]:
    return lambda number: os.kill(os.getpid(), signal.SIGTERM) if number == batch else None


def together(base: Path, size: int) -> tuple[Path, list[dict[str, Any]]]:
    """What the ranks of scripts/sharded_training.py tell, after this process has begun one of their runs."""
    assert alone(base, "elsewhere", stop(4 * 5)).status == "interrupted"
    run_ranks(size, TESTS / "scripts/sharded_training.py", base, seconds=600)
    return base, json.loads((base / "found.json").read_text())


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    return together(tmp_path_factory.mktemp(f"sharded{request.param}"), request.param)


Ran = tuple[Path, list[dict[str, Any]]]


def losses(run: Path) -> list[float]:
    return [row["loss"] for row in read_rows(run, "train")]


def test_as_many_processes_as_one_likes_have_the_same_losses(ran: Ran, tmp_path: Path) -> None:
    base, found = ran
    alone(tmp_path, "alone")
    alone(tmp_path, "muon", optimizer="muon")
    assert {rank["plain"]["status"] for rank in found} == {"finished"}
    for name, single in (("plain", "alone"), ("ddp", "alone"), ("muon", "muon")):
        assert len(losses(base / name)) == 20
        assert losses(base / name) == pytest.approx(losses(tmp_path / single), rel=1e-5 if name != "muon" else 1e-3)
        figures = [[row[key] for row in read_rows(base / name, "train")] for key in ("gradient_norm", "tokens")]
        expected = [[row[key] for row in read_rows(tmp_path / single, "train")] for key in ("gradient_norm", "tokens")]
        assert figures[0] == pytest.approx(expected[0], rel=1e-4 if name != "muon" else 2e-2)
        assert figures[1] == expected[1]


def test_going_on_ends_in_the_same_bits(ran: Ran) -> None:
    base, found = ran
    for rank in found:
        assert (rank["interrupted"]["status"], rank["interrupted"]["steps"]) == ("interrupted", 8)
        assert rank["resumed"] == rank["whole"]
    whole, broken = tiny_training.outcome(base / "whole"), tiny_training.outcome(base / "broken")
    assert broken == whole


def test_a_run_goes_on_with_other_numbers_of_processes(ran: Ran, tmp_path: Path) -> None:
    """One, then several, then one again; in the end it is the run of one."""
    base, found = ran
    for rank in found:
        assert (rank["elsewhere"]["status"], rank["elsewhere"]["steps"]) == ("interrupted", 12)
    assert [each.is_sharded for each in checkpoint.listed(base / "elsewhere" / "checkpoints")] == [True, True]
    assert alone(base, "elsewhere").status == "finished"
    alone(tmp_path, "alone")
    assert losses(base / "elsewhere") == pytest.approx(losses(tmp_path / "alone"), rel=1e-5)
    ours, theirs = (
        checkpoint.read(checkpoint.listed(run / "checkpoints")[-1]) for run in (base / "elsewhere", tmp_path / "alone")
    )
    for name, weight in theirs["model"].items():
        assert torch.allclose(ours["model"][name], weight, atol=1e-5), name


@pytest.mark.parametrize(("size", "parts"), [(1, 6), (2, 3), (3, 2), (6, 1), (4, None), (12, None)])
def test_a_number_of_processes_that_can_share_the_batches_of_a_step(
    tmp_path: Path, size: int, parts: int | None
) -> None:
    """A run of three processes, each with two batches."""
    (tmp_path / "config.gin").write_text("")
    (tmp_path / "versions.json").write_text('{"world_size": 3}')
    ranks: Any = SimpleNamespace(size=size, on_first=lambda function: function())
    if parts:
        settings, words = _resized(Settings(accumulate=2), ranks, tmp_path)
        assert settings.accumulate == parts and len(words) == (size != 3)
    else:
        with pytest.raises(
            RunError, match=f"begun by 3 processes, each with 2 batches .*: {size} cannot share them equally"
        ):
            _resized(Settings(accumulate=2), ranks, tmp_path)


def test_what_is_not_finite_on_one_rank_is_skipped_by_all_and_found(ran: Ran) -> None:
    _, found = ran
    for rank in found:
        forward, backward = rank["spoilt"]
        assert (
            (forward["status"], forward["skipped_steps"])
            == (backward["status"], backward["skipped_steps"])
            == ("diverged", 2)
        )
        assert forward["blew_up"] == "layer 2 output is NaN"
        assert (
            backward["blew_up"].startswith("the gradient of ")
            and "though the forward pass is finite" in backward["blew_up"]
        )


def test_a_checkpoint_that_one_rank_cannot_write_leaves_the_former_one(ran: Ran) -> None:
    base, found = ran
    for rank in found:
        assert "stopped after step 10" in rank["full"] and "go on from step 5" in rank["full"]
    assert any("No space left on device" in rank["full"] for rank in found)
    (kept,) = checkpoint.listed(base / "full" / "checkpoints")
    assert kept.step == 5 and checkpoint.sound(kept)


# --- the real command, as srun starts it


def srun(size: int, job: int, *arguments: str) -> list[subprocess.CompletedProcess[str]]:
    """Tasks with the environment that Slurm gives them, on this machine."""
    step = {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_STEP_NODELIST": "localhost"}
    tasks = {name: str(size) for name in ("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE")}
    started = []
    for rank in range(size):
        own = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "OMP_NUM_THREADS": "1"}
        command = [str(Path(sys.executable).with_name("zoo-train")), *arguments]
        started.append(
            subprocess.Popen(
                command,
                env={**os.environ, **step, **tasks, **own},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    outputs = [each.communicate(timeout=300) for each in started]
    return [
        subprocess.CompletedProcess(each.args, each.returncode, *output)
        for each, output in zip(started, outputs, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("methods", [["v3_m1"], ["v4_m1", "wr_8_2_gains"]])
def test_the_tasks_of_a_step_of_slurm_train_one_model_in_parts(tmp_path: Path, methods: list[str]) -> None:
    """A method that runs earlier layers again, and one that shares queries and keys; one process then goes on."""
    corpus = tiny_training.write_corpus(tmp_path)
    settings = [f"data.corpus='{corpus}'", f"data.cache='{tmp_path / 'cache'}'", "train.device='cpu'", "train.steps=20"]
    settings += ["train.save_every=10", "data.batch_size=4", "train.log_every=1"]
    given = [part for method in methods for part in ("--gin", method)] + ["--gin", "sizes/tiny", "--set", *settings]
    parts = [*given, "train.accumulate=2", "train.parallel='fsdp'", "--run", str(tmp_path / "parts")]
    first, second = srun(2, os.getpid(), *parts)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "cpu × 2" in first.stdout and "valid loss" not in second.stdout  # gloo speaks on its own
    whole = [*given, "train.accumulate=4", "--run", str(tmp_path / "whole")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    train = str(Path(sys.executable).with_name("zoo-train"))
    subprocess.run([train, *whole], env=environment, check=True, capture_output=True, timeout=300)
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), rel=1e-5)

    (tmp_path / "parts" / "summary.json").unlink()  # as if it had been interrupted
    shutil.rmtree(checkpoint.listed(tmp_path / "parts" / "checkpoints")[-1].path)
    again = subprocess.run([train, *parts], env=environment, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert "begun by 2 processes and goes on with 1: each takes 4 batches per step" in again.stderr + again.stdout
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), rel=1e-5)
    generate = [
        train.replace("zoo-train", "zoo-generate"),
        "--run",
        tmp_path / "parts",
        "--prompt",
        "red",
        "--max-tokens",
        "4",
    ]
    assert subprocess.run(generate, env=environment, check=True, capture_output=True, timeout=300).stdout


def test_tasks_that_contradict_themselves_say_so(tmp_path: Path) -> None:
    slurm = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
    command = [str(Path(sys.executable).with_name("zoo-train")), "--run", str(tmp_path / "run")]
    environment = {**os.environ, **slurm, "RANK": "1", "WORLD_SIZE": "4"}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert told.returncode == 2 and "WORLD_SIZE = 4 and SLURM_STEP_NUM_TASKS = 2 contradict each other" in told.stderr
