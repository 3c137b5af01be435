"""Stopping and going on: signals, kills, damaged checkpoints, full disks, and what is refused."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import tiny_training
from helpers.tiny_training import config, go, outcome

from zoo.errors import CheckpointError, RunError
from zoo.runs import checkpoint
from zoo.runs.metrics import Records, read_rows

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """As if nobody had started the tests with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, Any]:
    """The outcome of a run that nothing interrupts."""
    go(config(tmp_path), tmp_path / "whole")
    return outcome(tmp_path / "whole")


def steps(run: Path) -> list[int]:
    return [kept.step for kept in checkpoint.listed(run / "checkpoints")]


# --- SIGKILL


def test_killed_at_any_moment_the_same_command_ends_in_the_same_bits(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, TESTS / "scripts/killed_training.py", tmp_path],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    found = json.loads(done.stdout)
    assert len(found["killed"]) == 18  # every moment was reached
    assert found["whole"]["rows"] == found["broken"]["rows"]
    assert found["whole"] == found["broken"]


def test_tensorboard_shows_each_step_once_afterwards(tmp_path: Path, whole: dict[str, Any]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tmp_path / "run"
    for batch in (5, 8, 11):
        with pytest.raises(Killed):
            go(config(tmp_path, before=dying(batch)), run)
    go(config(tmp_path), run)
    shown = EventAccumulator(str(run), size_guidance={"histograms": 0}).Reload()
    assert [event.step for event in shown.Scalars("loss/train")] == [2, 4, 6, 8, 10, 12]
    assert [event.step for event in shown.Scalars("valid/accuracy")] == [4, 8, 12]
    assert [event.step for event in shown.Images("probes/gate")] == [12]
    assert len(shown.Tensors("custom_scalars__config__")) == 1 and len(shown.Tensors("configuration/text_summary")) == 1
    assert outcome(run) == whole


class Killed(BaseException):
    """Ends a run at once, as far as an exception can."""


def dying(batch: int) -> Any:
    def before(number: int) -> None:
        if number == batch:
            raise Killed

    return before


# --- signals


def signalling(*numbers: int, batch: int = 5) -> Any:
    def before(number: int) -> None:
        if number == batch:
            for each in numbers:
                os.kill(os.getpid(), each)

    return before


@pytest.mark.parametrize(
    ("number", "batch"),
    [
        *((number, batch) for number in (signal.SIGINT, signal.SIGTERM) for batch in (1, 4, 5, 12)),
        *((number, 5) for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)),
    ],
)
def test_a_signal_finishes_the_step_saves_and_can_be_gone_on_from(
    tmp_path: Path, whole: dict[str, Any], number: int, batch: int
) -> None:
    """Batch 4 and 12 are followed by a validation, which waits for the next session."""
    run, before = tmp_path / "run", signal.getsignal(number)
    summary = go(config(tmp_path, before=signalling(number, batch=batch)), run)
    assert (summary.status, summary.signal, summary.steps) == ("interrupted", number, batch)
    assert steps(run)[-1] == batch
    assert json.loads((run / "summary.json").read_text())["status"] == "interrupted"
    assert signal.getsignal(number) == before  # given back
    assert go(config(tmp_path), run).status == "finished"
    assert outcome(run) == whole


def test_a_signal_in_a_validation_does_not_wait_for_its_end(tmp_path: Path, whole: dict[str, Any]) -> None:
    class Slow(tiny_training.Data):
        measured = 0

        def evaluate(self, split: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            for batch in super().evaluate(split):
                yield batch
                Slow.measured += 1
                if Slow.measured == 2:
                    os.kill(os.getpid(), signal.SIGTERM)

    run = tmp_path / "run"
    made = config(tmp_path)
    summary = go(dataclasses.replace(made, data=Slow(made.data.tokenizer.path)), run)
    assert (summary.status, summary.steps, Slow.measured) == ("interrupted", 4, 2)
    assert read_rows(run, "valid") == []
    # Now the validation is done, and the process dies before the next checkpoint: it must not be there twice.
    with pytest.raises(Killed):
        go(config(tmp_path, before=dying(6)), run)
    go(config(tmp_path), run)
    assert outcome(run) == whole


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU])
def test_a_signal_that_was_ignored_stays_ignored(tmp_path: Path, number: int) -> None:
    """As nohup asks for with SIGHUP."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        summary = go(config(tmp_path, before=signalling(number)), tmp_path / "run")
        assert summary.status == "finished" and signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGHUP, signal.SIGHUP), (signal.SIGXCPU, signal.SIGXCPU), (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU)],
)
def test_what_the_system_repeats_by_itself_does_not_keep_it_from_saving(tmp_path: Path, numbers: Any) -> None:
    """A terminal that is closed is told by the shell and by the kernel, a limit of CPU time every second."""
    summary = go(config(tmp_path, before=signalling(*numbers)), tmp_path / "run")
    assert (summary.status, summary.signal, summary.steps) == ("interrupted", numbers[0], 5)
    assert steps(tmp_path / "run")[-1] == 5


def test_interrupted_again_and_again(tmp_path: Path, whole: dict[str, Any]) -> None:
    run = tmp_path / "run"
    for batch in range(1, 12, 2):
        assert go(config(tmp_path, before=signalling(signal.SIGINT, batch=batch)), run).steps == batch
    go(config(tmp_path), run)
    assert outcome(run) == whole


ENDLESS = """
import sys, time
from pathlib import Path
from helpers import tiny_training
folder = Path(sys.argv[1])
def before(number):
    if number == 3:
        print("ready", flush=True)
        time.sleep(1000)  # stands for a step that takes very long
tiny_training.go(tiny_training.config(folder, before=before), folder / "run")
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (signal.SIGINT, signal.SIGINT),
        pytest.param(signal.SIGUSR1, signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_second_signal_stops_at_once(tmp_path: Path, first: int, second: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=TESTS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(first)
    time.sleep(0.3)
    assert process.poll() is None  # it goes on with its step
    process.send_signal(second)
    _, said = process.communicate(timeout=5)
    assert process.returncode == -second
    again = "again" if first == signal.SIGUSR1 else "Ctrl-C"
    assert f"{signal.Signals(first).name}: finishing the step and saving; {again}" in said and "at once" in said
    assert steps(tmp_path / "run") == []


# --- disks


def test_a_damaged_checkpoint_is_told_and_the_one_before_it_used(
    tmp_path: Path, whole: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from zoo.training import trainer

    run = tmp_path / "run"
    with pytest.raises(Killed):
        go(config(tmp_path, before=dying(8)), run)
    assert steps(run) == [3, 6]
    damaged = checkpoint.listed(run / "checkpoints")[-1].path
    os.truncate(damaged, 1000)
    trainer.run(config(tmp_path), run)  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert f"{damaged} is damaged" in said and "continuing after step 3 of 12" in said
    assert outcome(run) == whole


def test_when_every_checkpoint_is_damaged_it_says_so(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Killed):
        go(config(tmp_path, before=dying(8)), run)
    for kept in checkpoint.listed(run / "checkpoints"):
        os.truncate(kept.path, 1000)
    with pytest.raises(CheckpointError, match="every checkpoint in .* is damaged"):
        go(config(tmp_path), run)


def full(*arguments: Any, **options: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("where", ["checkpoint", "records"])
def test_a_disk_that_fills_up_ends_the_run_with_a_sentence(
    tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    run = tmp_path / "run"

    def before(number: int) -> None:
        if number == 5:
            if where == "checkpoint":
                monkeypatch.setattr(torch, "save", full)
            else:
                monkeypatch.setattr(Records, "row", full)

    with pytest.raises(RunError, match=r"stopped after step 6: No space left on device\. .* go on from step 3"):
        go(config(tmp_path, before=before), run)
    assert steps(run) == [3]
    assert [path.suffix for path in (run / "checkpoints").iterdir()] == [".pt"]
    assert json.loads((run / "summary.json").read_text())["status"] == "interrupted"
    monkeypatch.undo()
    go(config(tmp_path), run)
    assert outcome(run) == whole


def test_a_disk_that_is_full_from_the_start_is_told_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    def before(number: int) -> None:
        raise AssertionError("it began to train")

    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(100, 99, 1))  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match="MB free"):
        go(config(tmp_path, before=before), tmp_path / "run")


@pytest.mark.parametrize("what", ["write_atomically", "_write_raw"])
def test_a_disk_that_is_full_when_the_run_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(f"zoo.runs.run_folder.{what}", full)
        with pytest.raises(RunError, match="run cannot be written: No space left on device"):
            go(config(tmp_path), tmp_path / "run")
    assert go(config(tmp_path), tmp_path / "run").status == "finished"


def test_a_run_that_could_not_begin_leaves_no_folder(tmp_path: Path) -> None:
    made = config(tmp_path)
    made.data.tokens = full  # type: ignore[method-assign]
    with pytest.raises(OSError):
        go(made, tmp_path / "runs" / "run")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_folder_that_cannot_be_made_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot be used as the folder of a run: Not a directory"):
        go(config(tmp_path), tmp_path / "file" / "run")


# --- what is refused


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The folder of a run that was interrupted."""
    go(config(tmp_path, before=signalling(signal.SIGINT)), tmp_path / "run")
    return tmp_path / "run"


def test_another_configuration_is_refused_with_what_differs(tmp_path: Path, begun: Path) -> None:
    with pytest.raises(RunError) as refused:
        go(config(tmp_path, lr=0.01, clip=2.0), begun)
    told = str(refused.value)
    assert "- train.lr = 0.05\n" in told and "+ train.lr = 0.01\n" in told and "+ train.clip = 2.0\n" in told
    assert "train.steps" not in told and "--run" in told


def test_a_default_that_has_changed_is_refused(tmp_path: Path, begun: Path) -> None:
    with (begun / "operative.gin").open("a") as file:
        file.write("train.of_late = 1\n")
    with pytest.raises(RunError, match="train.of_late was 1 and is 2\n.*--run"):
        go(config(tmp_path), begun)


def test_another_corpus_is_refused(tmp_path: Path, begun: Path) -> None:
    with pytest.raises(RunError, match="corpus: counting in that run, other now"):
        go(config(tmp_path, fingerprint="other"), begun)


def test_another_tokenizer_is_refused(tmp_path: Path, begun: Path) -> None:
    (tmp_path / "tokenizer").write_bytes(b"three two one")
    with pytest.raises(RunError, match="tokenizer: [0-9a-f]+ in that run, [0-9a-f]+ now"):
        go(config(tmp_path), begun)


def test_a_number_of_processes_that_cannot_share_the_rows_is_refused(tmp_path: Path, begun: Path) -> None:
    versions = json.loads((begun / "versions.json").read_text())
    (begun / "versions.json").write_text(json.dumps({**versions, "world_size": 2}))
    with pytest.raises(RunError, match="had 32 tokens, and with 1 process it would have 64: start as many as before"):
        go(config(tmp_path), begun)


def test_refusing_leaves_the_run_as_it_is(tmp_path: Path, begun: Path, whole: dict[str, Any]) -> None:
    with pytest.raises(RunError):
        go(config(tmp_path, lr=0.01), begun)
    with pytest.raises(RunError):
        go(config(tmp_path, fingerprint="other"), begun)
    go(config(tmp_path), begun)
    assert outcome(begun) == whole


def test_a_folder_of_something_else_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match=r"is not empty and is not the folder of a run \(it holds thesis.tex\)"):
        go(config(tmp_path), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]


def test_two_processes_in_one_folder_are_refused(tmp_path: Path, begun: Path) -> None:
    with (begun / "run.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process is working in"):
            go(config(tmp_path), begun)
    assert go(config(tmp_path), begun).status == "finished"


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    first = go(config(tmp_path), tmp_path / "run")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*") if path.name != "run.lock"}
    assert go(config(tmp_path), tmp_path / "run") == first
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*") if path.name != "run.lock"}


def test_a_checkpoint_that_does_not_fit_is_told_with_what_changed(begun: Path, tmp_path: Path) -> None:
    versions = json.loads((begun / "versions.json").read_text())
    versions["packages"]["torch"] = "1.0"
    (begun / "versions.json").write_text(json.dumps(versions))

    def wider(vocab_size: int, max_length: int, seed: int) -> tiny_training.Model:
        return tiny_training.Model(vocab_size, max_length, seed, width=16)

    with pytest.raises(RunError, match=r"(?s)does not fit.*size mismatch.*packages torch changed from 1\.0") as told:
        go(dataclasses.replace(config(tmp_path), model=wider), begun)
    assert "Go on with the versions that began it" in str(told.value)


def test_other_versions_are_told_and_written_down(
    tmp_path: Path, begun: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from zoo.training import trainer

    versions = json.loads((begun / "versions.json").read_text())
    now = versions["packages"]["torch"]
    versions["packages"]["torch"] = "1.0"
    (begun / "versions.json").write_text(json.dumps(versions))
    trainer.run(config(tmp_path), begun)  # type: ignore[arg-type]
    assert f"since this run began, packages torch changed from 1.0 to {now}" in capsys.readouterr().err
    kept = json.loads((begun / "versions.json").read_text())
    assert kept["packages"]["torch"] == "1.0" and kept["later"][0]["packages"]["torch"] == now
