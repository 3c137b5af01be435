"""A run of several ranks ends, whatever becomes of one of them, of torchrun, or of nobody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from helpers import tiny_training
from helpers.torchrun import torchrun

TESTS = Path(__file__).parents[1]
SECONDS = float(os.environ.get("ZOO_SECONDS_TO_END", "10"))  # after its summary, on a machine that is idle
LIVES = 12  # process groups, one after the other; of each that DDP outlived, one in four would hang


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What tests/lost_ranks.py writes down."""
    base = tmp_path_factory.mktemp("lost")
    command = [sys.executable, TESTS / "scripts/lost_ranks.py", base, str(LIVES), "2"]
    subprocess.run(command, check=True, timeout=600)
    answer: dict[str, Any] = json.loads((base / "found.json").read_text())
    return answer


def test_nothing_hangs(found: dict[str, Any]) -> None:
    assert {name for name, outcome in found.items() if outcome["hung"]} == set()


def test_run_after_run_ends(found: dict[str, Any]) -> None:
    assert found["2 ranks"]["ranks"] == [{"runs": LIVES}] * 2


def told(found: dict[str, Any], name: str) -> str:
    """What the one rank says that speaks."""
    (sentence,) = [rank["error"] for rank in found[name]["ranks"] if rank and rank.get("speaks")]
    assert sentence.endswith(": this run has ended, and the same command will go on from step 6")
    return str(sentence)


@pytest.mark.parametrize(("name", "rank"), [("killed", 1), ("three of four", 3), ("first killed", 0)])
def test_a_rank_that_is_killed_is_named_by_one_of_the_others(found: dict[str, Any], name: str, rank: int) -> None:
    assert told(found, name).startswith(f"rank {rank} died")


@pytest.mark.parametrize("name", ["stopped", "stuck"])
def test_a_rank_that_does_not_answer_is_named_after_the_timeout(found: dict[str, Any], name: str) -> None:
    said = told(found, name)
    assert said.startswith("rank 1 has not answered for 2 s (train.rank_timeout), last seen in ")
    assert name == "stopped" or "last seen in step 8" in said


def test_an_error_of_one_rank_is_told_by_the_others(found: dict[str, Any]) -> None:
    assert told(found, "raised").startswith("rank 1 ended with ValueError: of its own")
    assert found["raised"]["ranks"][1] == {"error": "ValueError: of its own"}


def test_an_error_of_the_model_is_no_lost_rank(found: dict[str, Any]) -> None:
    for rank in found["all raised"]["ranks"]:
        assert rank["error"].startswith("RuntimeError: size mismatch")


def test_without_torchrun_the_ranks_save_and_stop(found: dict[str, Any]) -> None:
    first, second = found["no torchrun"]["ranks"]
    assert first == second and first["steps"] < 1000
    assert (first["status"], first["signal"]) == ("interrupted", signal.SIGTERM)


def test_another_signal_on_one_rank_stops_all_at_the_same_step(found: dict[str, Any]) -> None:
    assert found["told"]["ranks"] == [{"status": "interrupted", "steps": 8, "signal": signal.SIGUSR1}] * 2


def test_the_replica_lets_go_of_its_group_though_someone_holds_it() -> None:
    """Also a traceback that is kept: then nothing but Python's own objects take the group down."""
    import torch
    import torch.distributed as dist

    from zoo.training import ranks

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        held = ranks.Ranks(0, 2, torch.device("cpu"))  # of two, so that there is a replica at all
        replica: Any = held.averaging(torch.nn.Linear(2, 2))
        reducer = weakref.ref(replica.reducer)
        assert reducer() is not None
        held._release()
        assert reducer() is None
    finally:
        dist.destroy_process_group()


# --- the real command under torchrun


def zoo_train(size: int, corpus: Path, *more: str | Path) -> list[str]:
    train = Path(sys.executable).with_name("zoo-train")
    settings = [f"data.corpus='{corpus}'", f"data.cache='{corpus.parent / 'cache'}'", "train.device='cpu'"]
    return torchrun(size, "--no-python", train, "--gin", "sizes/tiny", "--set", *settings, *more)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_training.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "runs"),
    [(2, int(os.environ.get("ZOO_RUNS_OF_2", "100"))), (4, int(os.environ.get("ZOO_RUNS_OF_4", "20")))],
)
def test_every_run_ends_soon_after_its_summary(corpus: Path, tmp_path: Path, size: int, runs: int) -> None:
    late = []
    for number in range(runs):
        run = tmp_path / str(number)
        command = zoo_train(size, corpus, "train.steps=6", "--folder", run)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                until = time.monotonic() + 300
                while not (run / "summary.json").exists() and process.poll() is None and time.monotonic() < until:
                    time.sleep(0.02)
                try:
                    _, said = process.communicate(timeout=SECONDS)
                    assert process.returncode == 0, said.decode()
                except subprocess.TimeoutExpired:
                    late.append(number)
            finally:
                process.terminate()
    assert late == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_rank_of_the_real_command(corpus: Path, tmp_path: Path, number: int) -> None:
    command = zoo_train(2, corpus, "train.steps=100000", "train.save_every=5", "train.log_every=5")
    command += ["train.rank_timeout=4", "--folder", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while not list((tmp_path / "run" / "checkpoints").glob("step_*.pt")):
            assert process.poll() is None
            time.sleep(0.05)
        os.kill(rank_of(process.pid, 1), number)
        _, said = process.communicate(timeout=90)
    expected = "rank 1 died" if number == signal.SIGKILL else "rank 1 has not answered for 4 s"
    assert f"zoo-train: {expected}" in said and "the same command will go on from step" in said
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "interrupted"


def rank_of(parent: int, rank: int) -> int:
    """The process of a rank that this process started."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if f"\0RANK={rank}\0" in Path(f"/proc/{child}/environ").read_text():
            return int(child)
    raise AssertionError("it is not there")
