"""Checkpoints: whole or not there, noticed when damaged, never lost to a failed write."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.errors import CheckpointError
from zoo.runs import checkpoint
from zoo.training import random_state


def state(number: int, size: int = 1000) -> dict[str, Any]:
    return {"number": number, "weights": torch.full((size,), float(number))}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    kept = {"tensor": torch.randn(3, 4), "nested": {"list": [1, 2.5, "text", None, True]}, "tuple": (1, (2, b"bytes"))}
    path = checkpoint.save(tmp_path, 7, kept)
    newest, messages = checkpoint.newest(tmp_path)
    assert newest is not None and newest.path == path and newest.step == 7 and messages == []
    loaded = checkpoint.read(newest)
    assert torch.equal(loaded.pop("tensor"), kept.pop("tensor"))
    assert loaded == kept


def test_the_name_carries_the_checksum_that_sha256sum_tells(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, 7, state(1))
    told = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout
    assert path.name == f"step_00000007.{told[:16]}.pt"


def test_only_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        checkpoint.save(tmp_path, step, state(step))
    assert [kept.step for kept in checkpoint.listed(tmp_path)] == [3, 4]
    assert len(names(tmp_path)) == 2


def test_a_future_that_was_given_up_is_removed(tmp_path: Path) -> None:
    for step in (10, 20):
        checkpoint.save(tmp_path, step, state(step))
    checkpoint.save(tmp_path, 15, state(15))
    assert [kept.step for kept in checkpoint.listed(tmp_path)] == [10, 15]


def test_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    for number in (1, 2):
        checkpoint.save(tmp_path, 5, state(number))
    (kept,) = checkpoint.listed(tmp_path)
    assert checkpoint.read(kept)["number"] == 2


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 100)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip(path: Path) -> None:
    """Change one bit in the middle of the weights: torch itself would load that without a word."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [truncate, empty, flip])
def test_a_damaged_one_is_noticed_and_the_one_before_it_used(tmp_path: Path, damage: Any) -> None:
    checkpoint.save(tmp_path, 1, state(1))
    damage(checkpoint.save(tmp_path, 2, state(2)))
    newest, messages = checkpoint.newest(tmp_path)
    assert newest is not None and checkpoint.read(newest)["number"] == 1
    (message,) = messages
    assert "step_00000002" in message and "damaged" in message


def test_when_all_are_damaged_nothing_is_begun_anew_in_silence(tmp_path: Path) -> None:
    for step in (1, 2):
        truncate(checkpoint.save(tmp_path, step, state(step)))
    with pytest.raises(CheckpointError, match="every checkpoint .* damaged .*delete them"):
        checkpoint.newest(tmp_path)


def test_an_empty_folder_has_none(tmp_path: Path) -> None:
    assert checkpoint.newest(tmp_path) == (None, [])
    assert checkpoint.newest(tmp_path / "absent") == (None, [])


def test_it_cannot_run_code(tmp_path: Path) -> None:
    """A checkpoint from elsewhere is data: pickled code is refused."""
    path = tmp_path / "evil"
    torch.save({"model": print}, path)
    import hashlib

    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    path.rename(tmp_path / f"step_00000001.{digest}.pt")
    newest, _ = checkpoint.newest(tmp_path)
    assert newest is not None
    with pytest.raises(Exception, match="[Ww]eights.only"):
        checkpoint.read(newest)


# --- disks


SAVE_UNDER_A_LIMIT = """
import resource, signal, sys, torch
from pathlib import Path
from zoo.runs import checkpoint
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write beyond the limit fails as on a full disk
checkpoint.save(Path(sys.argv[1]), 1, {"weights": torch.zeros(100)})
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    checkpoint.save(Path(sys.argv[1]), 2, {"weights": torch.zeros(1_000_000)})
except OSError as error:
    print(error.errno)
"""


def test_a_write_that_really_fails_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAVE_UNDER_A_LIMIT, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(errno.EFBIG)]
    (kept,) = checkpoint.listed(tmp_path)
    assert kept.step == 1 and checkpoint.sound(kept)
    assert names(tmp_path) == [kept.path.name]


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_full_disk_at_the_last_moment_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    kept = checkpoint.save(tmp_path, 1, state(1))

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, where, full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(tmp_path, 2, state(2))
    assert names(tmp_path) == [kept.name]


def test_a_folder_that_cannot_be_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"cannot be written to .*file/checkpoints"):
        checkpoint.probe(tmp_path / "file" / "checkpoints", 100, 2)


def test_a_folder_without_permission_is_told_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*arguments: Any) -> None:  # root may write anywhere, so the real thing cannot be had everywhere
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "write_bytes", denied)
    with pytest.raises(CheckpointError, match="cannot be written to .*Permission denied"):
        checkpoint.probe(tmp_path, 100, 2)


def test_too_little_space_is_told_at_the_start(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    checkpoint.probe(tmp_path, 1000, 2)
    with pytest.raises(CheckpointError, match="MB free, and this run needs room for 3 more checkpoints of"):
        checkpoint.probe(tmp_path, free // 2, 2)
    with pytest.raises(CheckpointError, match="for 11 more"):
        checkpoint.probe(tmp_path, free // 8, 10)
    assert names(tmp_path) == []
    for step in (1, 2):
        checkpoint.save(tmp_path, step, state(step))
    checkpoint.probe(tmp_path, free // 2, 2)  # with two there, one more is enough


def test_left_overs_of_a_killed_writer_are_cleared(tmp_path: Path) -> None:
    (tmp_path / "step_00000003.pt.tmp").write_bytes(b"half")
    checkpoint.probe(tmp_path, 100, 2)
    assert names(tmp_path) == []


# --- random numbers


def test_every_generator_goes_on_where_it_was(tmp_path: Path) -> None:
    import random

    import numpy

    def draw() -> tuple[float, float, float, float]:
        return torch.rand(()).item(), random.random(), numpy.random.rand(), numpy.random.standard_normal()

    random_state.seed(5)
    first = draw()
    path = checkpoint.save(tmp_path, 1, random_state.random_state())  # also: it survives weights_only
    after = draw()
    random_state.seed(5)
    assert draw() == first
    random_state.set_random_state(checkpoint.read(checkpoint.listed(tmp_path)[0]))
    assert path.exists() and draw() == after != first


def test_the_limit_of_this_process_was_not_touched() -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
