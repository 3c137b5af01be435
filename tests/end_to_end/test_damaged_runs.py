"""Files of a run that are damaged, foreign or gone: a sentence each, and what can be recovered is."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.tiny_training import config, go, outcome

from zoo.errors import CheckpointError, RunError, ZooError
from zoo.runs import checkpoint, event_file, metrics
from zoo.runs.summary import read_summary
from zoo.training import trainer

Damage = Callable[[Path], Any]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted after step 7, one that was not, and one of another learning rate, up to step 7."""
    folder = tmp_path_factory.mktemp("base")

    def interrupting(number: int) -> None:
        if number == 7:
            os.kill(os.getpid(), signal.SIGTERM)

    go(config(folder), folder / "whole")
    go(config(folder, before=interrupting), folder / "run")
    go(config(folder, before=interrupting, lr=0.01), folder / "other")
    return folder


@pytest.fixture
def run(base: Path, tmp_path: Path) -> Path:
    """A copy of the interrupted run, to be damaged."""
    return Path(shutil.copytree(base / "run", tmp_path / "run"))


def resume(base: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said while the run goes on to its end."""
    assert trainer.run(config(base), run).status == "finished"  # type: ignore[arg-type]
    return capsys.readouterr().err


def refusal(base: Path, run: Path) -> str:
    with pytest.raises(ZooError) as refused:
        go(config(base), run)
    return str(refused.value)


def without_rows(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "rows"}


def last(run: Path) -> Path:
    return checkpoint.listed(run / "checkpoints")[-1].path


def rename_to_hash(path: Path) -> None:
    """Give a file in the place of a checkpoint the name that its content asks for."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    path.rename(path.with_name(f"{path.name[:13]}.{digest}.pt"))


# --- whose a checkpoint is


def adopt(run: Path, other: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(other / "checkpoints", run / "checkpoints")


def test_the_checkpoint_of_another_run_is_refused_with_what_differs(base: Path, run: Path) -> None:
    adopt(run, base / "other")
    told = refusal(base, run)
    assert f"{last(run)} is the checkpoint of another run" in told
    assert "- train.lr = 0.01\n" in told and "+ train.lr = 0.05\n" in told and "train.steps" not in told


def test_a_copy_of_the_same_run_is_not_another(base: Path, run: Path) -> None:
    adopt(run, base / "run")
    go(config(base), run)
    assert outcome(run) == outcome(base / "whole")


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what a checkpoint holds, and give it the name for it."""
    kept = torch.load(path, weights_only=True)
    changed = change(kept)
    torch.save(kept if changed is None else changed, path)
    rename_to_hash(path)


def test_a_checkpoint_that_does_not_say_whose_it_is_resumes(base: Path, run: Path) -> None:
    rewrite(last(run), lambda kept: kept.pop("config") and None)
    go(config(base), run)
    assert without_rows(outcome(run)) == without_rows(outcome(base / "whole"))


# --- what is no checkpoint, by a name that fits


def no_checkpoint(content: bytes) -> Damage:
    def damage(run: Path) -> None:
        path = last(run)
        path.write_bytes(content)
        rename_to_hash(path)

    return damage


def holding(change: Callable[[dict[str, Any]], Any]) -> Damage:
    return lambda run: rewrite(last(run), change)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (no_checkpoint(b""), "is not a checkpoint: "),
        (no_checkpoint(b"garbage" * 99), "is not a checkpoint: "),
        (no_checkpoint(b"\x80\x04cposix\nsystem\n(S'true'\ntR."), "is not a checkpoint: "),
        (holding(lambda kept: [1, 2]), "is not a checkpoint: it holds a list"),
        (holding(lambda kept: {}), "it has no model, optimizer, state, ranks, marks"),
        (holding(lambda kept: kept.pop("marks") and None), "it has no marks"),
        (holding(lambda kept: kept["marks"].update(x="y")), "it has no marks"),
        (holding(lambda kept: kept.update(ranks=[])), "does not fit what would go on from it"),
        (holding(lambda kept: kept.update(ranks=[3])), "does not fit what would go on from it"),
        (holding(lambda kept: kept["state"].update(odd=1)), "does not fit what would go on from it"),
        (holding(lambda kept: kept.update(optimizer={})), "does not fit what would go on from it"),
    ],
)
def test_a_file_with_a_right_hash_that_is_no_checkpoint(base: Path, run: Path, damage: Damage, told: str) -> None:
    damage(run)
    assert told in refusal(base, run)


def instead(make: Damage) -> Damage:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (instead(os.mkfifo), "cannot be read (it is not a regular file)"),
        (instead(Path.mkdir), "cannot be read (Is a directory)"),
        (instead(lambda path: path.symlink_to("nowhere")), "cannot be read (No such file or directory)"),
        (instead(lambda path: path.symlink_to("/dev/zero")), "cannot be read (it is not a regular file)"),
        (instead(lambda path: path.symlink_to(path)), "cannot be read (Too many levels of symbolic links)"),
    ],
)
def test_what_stands_in_the_place_of_a_checkpoint(
    base: Path, run: Path, damage: Damage, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = last(run)
    damage(path)
    assert f"{path} {told}: the checkpoint before it is used" in resume(base, run, capsys)
    assert checkpoint.listed(run / "checkpoints")[-1].step == 12


def test_no_checkpoint_that_can_be_read(base: Path, run: Path) -> None:
    for kept in checkpoint.listed(run / "checkpoints"):
        instead(os.mkfifo)(kept.path)
    told = refusal(base, run)
    assert "no checkpoint in" in told and told.count("it is not a regular file") == 2 and "mend or delete them" in told


def denied(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file of that name be opened: root may read anything, so the real thing cannot be had everywhere."""
    original = os.open

    def opening(path: Any, *arguments: Any, **options: Any) -> int:
        if Path(path).name.startswith(name):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return original(path, *arguments, **options)

    monkeypatch.setattr(os, "open", opening)


@pytest.mark.parametrize("name", ["config.gin", "operative.gin", "summary.json", "step_"])
def test_files_of_others(base: Path, run: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    denied(name, monkeypatch)
    assert "Permission denied" in refusal(base, run)


# --- one checkpoint too many


def test_what_a_kill_before_the_pruning_left_is_pruned_at_the_next_start(base: Path, run: Path) -> None:
    folder = run / "checkpoints"
    kept = [each.step for each in checkpoint.listed(folder)]
    for step in (1, 2):
        (folder / f"step_{step:08d}.{'0' * 16}.pt").write_bytes(b"old")
    newest, _ = checkpoint.newest(folder)
    assert newest is not None
    checkpoint.prune_older(folder, newest, keep=2)
    assert [each.step for each in checkpoint.listed(folder)] == kept == [6, 7]
    checkpoint.prune_older(folder, newest, keep=1)
    assert [each.step for each in checkpoint.listed(folder)] == [7]


# --- the files around it


def binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\0\x80")


def in_the_way(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        ("config.gin", binary, "config.gin is damaged: it is not UTF-8 text (byte 0); put back a copy"),
        ("config.gin", in_the_way, "config.gin cannot be read: Is a directory"),
        ("operative.gin", binary, "operative.gin is damaged: it is not UTF-8 text"),
        ("operative.gin", instead(os.mkfifo), "operative.gin cannot be read: it is not a regular file"),
        ("summary.json", in_the_way, "summary.json cannot be read: Is a directory"),
        ("summary.json", instead(os.mkfifo), "summary.json cannot be read: it is not a regular file"),
        ("summary.json", lambda p: p.write_text("[" * 100_000), "summary that this version reads: it is nested too"),
        ("summary.json", lambda p: p.write_text("[]"), "it is not a JSON object"),
        ("summary.json", binary, "is not a summary that this version reads"),
        ("metrics.jsonl", in_the_way, "metrics.jsonl cannot be read: Is a directory"),
        ("metrics.jsonl", instead(os.mkfifo), "metrics.jsonl cannot be read: it is not a regular file"),
        ("versions.json", in_the_way, "run cannot be written: Is a directory"),
        ("run.lock", in_the_way, "run cannot be used as the folder of a run: Is a directory"),
        ("tokenizer.model", in_the_way, "tokenizer.model is a folder: remove it"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(base: Path, run: Path, name: str, damage: Damage, told: str) -> None:
    damage(run / name)
    assert told in refusal(base, run)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda path: path.write_text("{"), "is damaged: "),
        (lambda path: path.write_text("[]"), "is damaged: it is not a JSON object"),
        (lambda path: path.write_text("[" * 100_000), "is damaged: it is nested too deeply"),
        (binary, "is damaged: "),
        (Path.unlink, "cannot be read: No such file or directory"),
        (instead(os.mkfifo), "cannot be read: it is not a regular file"),
    ],
)
def test_the_versions_are_written_anew(
    base: Path, run: Path, damage: Damage, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads((run / "versions.json").read_text())
    damage(run / "versions.json")
    said = resume(base, run, capsys)
    assert f"{run / 'versions.json'} {told}" in said and "it was written anew" in said
    assert json.loads((run / "versions.json").read_text()).keys() == before.keys()
    assert outcome(run) == outcome(base / "whole")


def test_without_versions_the_tokenizer_still_tells_another_run(base: Path, run: Path) -> None:
    (run / "versions.json").unlink()
    (run / "tokenizer.model").write_bytes(b"another")
    assert "tokenizer: " in refusal(base, run)
    (run / "tokenizer.model").unlink()
    assert go(config(base), run).status == "finished"


@pytest.mark.parametrize("damage", [binary, Path.unlink])
def test_the_tokenizer_is_written_anew(
    base: Path, run: Path, damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "tokenizer.model").read_bytes()
    damage(run / "tokenizer.model")
    assert "tokenizer.model was missing or altered: it was written anew" in resume(base, run, capsys)
    assert (run / "tokenizer.model").read_bytes() == before


def test_a_pipe_in_the_place_of_the_lock_is_not_waited_for(base: Path, run: Path) -> None:
    instead(os.mkfifo)(run / "run.lock")
    go(config(base), run)
    assert outcome(run) == outcome(base / "whole")


def test_a_pipe_in_the_place_of_records_is_not_waited_for(base: Path, run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    instead(os.mkfifo)(run / metrics.METRICS)
    assert "metrics.jsonl cannot be read: it is not a regular file; remove it" in refusal(base, run)


def test_a_summary_behind_a_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_summary(tmp_path / "file") is None and read_summary(tmp_path / "nowhere") is None


# --- records


def junk(*numbers: int) -> Damage:
    def damage(run: Path) -> None:
        lines = (run / metrics.METRICS).read_bytes().split(b"\n")
        for number in numbers:
            lines[number] = b"\xff" * len(lines[number])
        (run / metrics.METRICS).write_bytes(b"\n".join(lines))

    return damage


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda run: (run / metrics.METRICS).unlink(), ["metrics.jsonl lacks the rows of steps 1–6"]),
        (lambda run: os.truncate(run / metrics.METRICS, 100), ["metrics.jsonl lacks the rows of steps 1–6"]),
        (junk(0), ["1 unreadable line of", "metrics.jsonl lacks the rows of steps 1–2"]),
        (junk(2, 3), ["2 unreadable lines of", "metrics.jsonl lacks the rows of steps 3–4"]),
        (junk(1), ["1 unreadable line of", "metrics.jsonl lacks some of its rows"]),
        (
            lambda run: [path.unlink() for path in run.glob(event_file.PATTERN)],
            ["is gone or cut off: TensorBoard lacks a part of the run"],
        ),
    ],
)
def test_lost_records_are_told(
    base: Path, run: Path, damage: Damage, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = metrics.read_rows(run)
    damage(run)
    said = resume(base, run, capsys)
    assert all(sentence in said for sentence in told), said
    kept = metrics.read_rows(run)
    assert [row["step"] for row in kept if row["kind"] == "train"][-3:] == [8, 10, 12]
    assert len({(row["kind"], row["step"]) for row in kept}) == len(kept)  # none is there twice
    assert all(json.loads(line) for line in (run / metrics.METRICS).read_text().splitlines())
    assert rows and without_rows(outcome(run)) == without_rows(outcome(base / "whole"))


def test_a_sound_run_resumes_without_a_word_about_its_records(
    base: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (run / metrics.METRICS).open("ab") as file:
        file.write(b"junk behind the mark\n")
    said = resume(base, run, capsys)
    assert "lacks" not in said and "unreadable" not in said and "gone" not in said
    assert outcome(run) == outcome(base / "whole")


def test_rows_that_cannot_be_read_are_left_out(run: Path) -> None:
    rows = metrics.read_rows(run)
    junk(1)(run)
    assert metrics.read_rows(run) == rows[:1] + rows[2:]
    (run / metrics.METRICS).unlink()
    with pytest.raises(RunError, match=r"metrics\.jsonl cannot be read: No such file"):
        metrics.read_rows(run)


# --- while it trains


@pytest.mark.parametrize("code", [errno.ESTALE, errno.ENXIO, errno.EBADF, errno.ETIMEDOUT])
def test_a_disk_that_goes_away_ends_the_run_with_a_sentence(
    base: Path, run: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def failing(*arguments: Any, **options: Any) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", failing)
        told = refusal(base, run)
    assert "stopped after step 9: " in told and os.strerror(code) in told and "go on from step 7" in told
    go(config(base), run)
    assert outcome(run) == outcome(base / "whole")


def test_a_folder_that_is_deleted_while_it_trains(base: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(RunError, match=r"(?s)stopped after step 6: No such file or directory .*begin again"):
        go(config(base, before=lambda number: shutil.rmtree(run) if number == 5 else None), run)


def test_records_that_are_deleted_while_it_trains(base: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(RunError, match=r"(?s)metrics\.jsonl.*go on from step 3"):
        go(config(base, before=lambda number: (run / metrics.METRICS).unlink() if number == 5 else None), run)


def test_versions_that_are_deleted_while_it_trains(base: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    made = config(base, before=lambda number: (run / "versions.json").unlink() if number == 5 else None)
    assert go(made, run).status == "finished"
    assert outcome(run) == outcome(base / "whole")


def test_what_a_method_misses_elsewhere_is_no_fault_of_the_folder(base: Path, tmp_path: Path) -> None:
    def before(number: int) -> None:
        (tmp_path / "of a method").read_text()

    with pytest.raises(FileNotFoundError):
        go(config(base, before=before), tmp_path / "run")


def test_a_checkpoint_is_read_from_regular_files_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="not a regular file"):
        checkpoint.read(checkpoint.Checkpoint(1, tmp_path / "pipe", ""))
