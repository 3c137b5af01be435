"""Checkpoints: one file each, never half of one.

A checkpoint is a plain `torch.save` file whose name carries its step and the start of its SHA-256, so that a truncated
or altered one is noticed (`sha256sum` tells as well) and the one before it is used. It is written under a temporary
name, brought to the disk, and renamed: whatever happens in between, the checkpoints that were there stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import IO, Any, NamedTuple

from zoo.errors import CheckpointError
from zoo.files import TEMPORARY, sync_folder

_NAME = re.compile(r"step_(?P<step>\d{8})\.(?P<digest>[0-9a-f]{16})\.pt")


class Checkpoint(NamedTuple):
    """A checkpoint on the disk."""

    step: int
    path: Path
    digest: str


def listed(folder: Path) -> list[Checkpoint]:
    """The checkpoints of a folder, oldest first."""
    matches = [(_NAME.fullmatch(path.name), path) for path in folder.glob("step_*.pt")]
    found = [Checkpoint(int(m["step"]), path, m["digest"]) for m, path in matches if m]
    return sorted(found, key=lambda checkpoint: (checkpoint.step, checkpoint.path.stat().st_mtime_ns))


def save(folder: Path, step: int, state: dict[str, Any], keep: int = 2) -> Path:
    """Write a checkpoint and drop what it makes superfluous; an `OSError` leaves the folder as it was."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"step_{step:08d}.pt{TEMPORARY}"
    try:
        with temporary.open("wb") as file:
            hashing = _Hashing(file)
            try:
                torch.save(state, hashing)  # type: ignore[arg-type]  # only `write` is called
            except RuntimeError as error:  # what torch's archive writer makes of an OSError
                raise hashing.failure or error from error
            file.flush()
            os.fsync(file.fileno())
        path = folder / f"step_{step:08d}.{hashing.digest()}.pt"
        os.replace(temporary, path)
        sync_folder(folder)
    finally:
        temporary.unlink(missing_ok=True)
    _prune(folder, Checkpoint(step, path, hashing.digest()), keep)
    return path


class _Hashing:
    """A file that is hashed while it is written, and remembers the error that stopped it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.failure: OSError | None = None

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.failure = error
            raise

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> str:
        return self._hash.hexdigest()[:16]


def _prune(folder: Path, newest: Checkpoint, keep: int) -> None:
    """Keep the newest checkpoint and those before it; later ones belong to a future that was given up."""
    others = [checkpoint for checkpoint in listed(folder) if checkpoint.path != newest.path]
    before = [checkpoint for checkpoint in others if checkpoint.step < newest.step]
    kept = before[-(keep - 1) :] if keep > 1 else []
    for checkpoint in others:
        if checkpoint not in kept:
            checkpoint.path.unlink(missing_ok=True)


def newest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest sound checkpoint, if there is any at all, and a sentence for each damaged one that is passed over."""
    damaged: list[Path] = []
    for checkpoint in reversed(listed(folder)):
        if sound(checkpoint):
            return checkpoint, [f"{path} is damaged: the checkpoint before it is used" for path in damaged]
        damaged.append(checkpoint.path)
    if damaged:
        names = ", ".join(path.name for path in damaged)
        raise CheckpointError(f"every checkpoint in {folder} is damaged ({names}): delete them to begin this run again")
    return None, []


def sound(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint is what was written."""
    digest = hashlib.sha256()
    with checkpoint.path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()[:16] == checkpoint.digest


def read(checkpoint: Checkpoint) -> dict[str, Any]:
    """Load a checkpoint to the CPU; it can hold tensors and plain values only."""
    import torch

    loaded: dict[str, Any] = torch.load(checkpoint.path, map_location="cpu", weights_only=True)
    return loaded


def probe(folder: Path, size: int, keep: int) -> None:
    """Say now, rather than after an hour, that `keep` checkpoints of `size` bytes and a next one have no room here."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left_over in folder.glob(f"*{TEMPORARY}"):  # of a process that was killed while it wrote
            left_over.unlink(missing_ok=True)
        trial = folder / f"probe{TEMPORARY}"
        try:
            trial.write_bytes(b"\0" * 4096)
        finally:
            with contextlib.suppress(OSError):
                trial.unlink(missing_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise CheckpointError(f"checkpoints cannot be written to {folder}: {error.strerror or error}") from error
    more = max(1, keep + 1 - len(listed(folder)))
    if free < more * size:
        raise CheckpointError(
            f"{folder} has {free / 1e6:,.0f} MB free, and this run needs room for {more} more checkpoints of"
            f" {size / 1e6:,.0f} MB; free some space, keep fewer (train.keep_checkpoints) or choose another folder with --run"
        )
