"""Checkpoints that many processes write: here one writes all parts; tests/end_to_end/test_sharded.py has several."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.errors import CheckpointError
from zoo.runs import checkpoint, sharded_checkpoint

WEIGHT, MOMENT = torch.arange(12.0).view(4, 3), torch.ones(4, 3)


def save(folder: Path, step: int, keep: int = 2) -> Path:
    temporary = sharded_checkpoint.begin(folder, step)
    tensors = {
        "model/layers.0.w": WEIGHT + step,
        "optimizer/layers.0.w/exp_avg": MOMENT,
        "optimizer/layers.0.w/step": MOMENT[0, 0],
    }
    files = sharded_checkpoint.write_own(temporary, tensors, rank=0)
    path = sharded_checkpoint.commit(temporary, {"state": {"step": step}, "ranks": [], "marks": {}}, files)
    checkpoint.prune(folder, path, keep)
    return path


def test_it_is_read_as_any_other(tmp_path: Path) -> None:
    path = save(tmp_path, 7)
    newest, messages = checkpoint.newest(tmp_path)
    assert newest is not None and (newest.path, newest.step, newest.is_sharded, messages) == (path, 7, True, [])
    content = checkpoint.read(newest)
    assert content["state"] == {"step": 7}
    assert torch.equal(content["model"]["layers.0.w"], WEIGHT + 7)
    kept = content["optimizer"]["by_name"]["layers.0.w"]
    assert torch.equal(kept["exp_avg"], MOMENT) and kept["step"].shape == ()
    checkpoint.check_parts(newest, content)
    assert sharded_checkpoint.read_rest(path).keys() == {"state", "ranks", "marks"}


def test_older_ones_are_dropped_of_either_kind(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, {"number": 1})
    for step in (2, 3):
        save(tmp_path, step)
    assert [(each.step, each.is_sharded) for each in checkpoint.listed(tmp_path)] == [(2, True), (3, True)]
    checkpoint.save(tmp_path, 4, {"number": 4}, keep=1)
    assert [each.name for each in tmp_path.iterdir()] == [checkpoint.listed(tmp_path)[0].path.name]


def shorten(path: Path) -> None:
    (part,) = path.glob("*.distcp")
    part.write_bytes(part.read_bytes()[:-1])


def alter(path: Path) -> None:
    torch.save({"state": {"step": 9}}, path / "rest.pt")


def relist(path: Path) -> None:
    listing = json.loads((path / "files.json").read_text())
    (path / "files.json").write_text(json.dumps({**listing, "rest.pt": "0" * 64}))


@pytest.mark.parametrize(
    "harm",
    [
        shorten,
        alter,
        relist,
        *(
            lambda path, name=name: (path / name).unlink()
            for name in (".metadata", "rest.pt", "files.json", "__0_0.distcp")
        ),
    ],
)
def test_a_damaged_one_is_noticed_and_the_one_before_it_used(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    save(tmp_path, 1)
    path = save(tmp_path, 2)
    harm(path)
    newest, messages = checkpoint.newest(tmp_path)
    assert newest is not None and newest.step == 1
    assert messages == [f"{path} is damaged: the checkpoint before it is used"]


def test_it_cannot_run_code(tmp_path: Path) -> None:
    """Neither torch's description, which is a pickle, nor what is beside it."""
    path, ran = save(tmp_path, 1), tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(ran),)

    for name, content in ((".metadata", pickle.dumps(Evil())), ("rest.pt", None)):
        before = (path / name).read_bytes()
        if content is None:
            torch.save({"state": Evil()}, path / name)
        else:
            (path / name).write_bytes(content)
        with pytest.raises(CheckpointError, match="is not a checkpoint: "):
            sharded_checkpoint.read_whole(path)
        (path / name).write_bytes(before)
    assert not ran.exists()
    sharded_checkpoint.read_whole(path)


def test_one_that_is_not_finished_is_none(tmp_path: Path) -> None:
    """A process that is killed while it writes leaves a folder that nobody takes for a checkpoint, until it is removed."""
    kept = save(tmp_path, 1)
    temporary = sharded_checkpoint.begin(tmp_path, 2)
    sharded_checkpoint.write_own(temporary, {"model/w": WEIGHT}, rank=0)
    assert [each.path for each in checkpoint.listed(tmp_path)] == [kept]
    checkpoint.probe(tmp_path, 100, 2)
    assert [each.name for each in tmp_path.iterdir()] == [kept.name]


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_full_disk_at_the_last_moment_leaves_the_former(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    kept = save(tmp_path, 1)
    temporary = sharded_checkpoint.begin(tmp_path, 2)
    files = sharded_checkpoint.write_own(temporary, {"model/w": WEIGHT}, rank=0)

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, where, full)
    with pytest.raises(OSError, match="No space left"):
        sharded_checkpoint.commit(temporary, {}, files)
    assert [each.name for each in tmp_path.iterdir()] == [kept.name]


def test_a_disk_that_is_full_while_tensors_are_written_is_an_os_error(tmp_path: Path) -> None:
    temporary = sharded_checkpoint.begin(tmp_path, 2)
    temporary.rmdir()
    temporary.write_text("in the way")
    with pytest.raises(OSError, match="exists|[Nn]ot a directory"):
        sharded_checkpoint.write_own(temporary, {"model/w": WEIGHT}, rank=0)


def test_the_name_has_the_digest_of_the_list_of_files(tmp_path: Path) -> None:
    path = save(tmp_path, 3)
    listing = (path / "files.json").read_bytes()
    assert path.name == f"step_00000003.{hashlib.sha256(listing).hexdigest()[:16]}.sharded"
    assert json.loads(listing).keys() == {each.name for each in path.iterdir()} - {"files.json"}
