"""Checkpoints: one file each, or one folder that many processes wrote (`zoo.runs.sharded_checkpoint`), never half of one.

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
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from zoo.config.values import changed_bindings
from zoo.errors import CheckpointError
from zoo.runs import sharded_checkpoint
from zoo.runs.run_control import RUN_CONTROL
from zoo.system.files import TEMPORARY, sync_folder
from zoo.system.regular_files import open_regular

_NAME = re.compile(r"step_(?P<step>\d{8,})\.(?P<digest>[0-9a-f]{16})\.(pt|sharded)")
PARTS: dict[str, type] = {"model": dict, "optimizer": dict, "state": dict, "ranks": list, "marks": dict}
CONFIG = "config"  # the configuration of the run that wrote it, as text; older checkpoints lack it


class Checkpoint(NamedTuple):
    """A checkpoint on the disk."""

    step: int
    path: Path
    digest: str

    @property
    def is_sharded(self) -> bool:
        """Whether it is a folder that many processes wrote."""
        return self.path.suffix == sharded_checkpoint.SUFFIX


def listed(folder: Path) -> list[Checkpoint]:
    """The checkpoints of a folder, oldest first."""
    matches = [(_NAME.fullmatch(path.name), path) for path in folder.glob("step_*")]
    checkpoints = [Checkpoint(int(m["step"]), path, m["digest"]) for m, path in matches if m]
    return sorted(checkpoints, key=lambda checkpoint: (checkpoint.step, _written(checkpoint.path)))


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # a link that leads nowhere, or a file that is gone by now
        return 0


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
    prune(folder, path, keep)
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


def prune(folder: Path, newest: Path, keep: int) -> None:
    """Keep the newest checkpoint and those before it; later ones belong to a future that was given up."""
    (step,) = (checkpoint.step for checkpoint in listed(folder) if checkpoint.path == newest)
    others = [checkpoint for checkpoint in listed(folder) if checkpoint.path != newest]
    before = [checkpoint for checkpoint in others if checkpoint.step < step]
    to_keep = before[-(keep - 1) :] if keep > 1 else []
    for checkpoint in others:
        if checkpoint not in to_keep:
            _drop(checkpoint)


def _drop(checkpoint: Checkpoint) -> None:
    with contextlib.suppress(OSError):  # a folder of that name, say: what cannot be removed does no harm
        if checkpoint.is_sharded:
            sharded_checkpoint.drop(checkpoint.path)
        else:
            checkpoint.path.unlink()


def prune_older(folder: Path, newest: Checkpoint, keep: int) -> None:
    """Drop what a process left that was killed between its last checkpoint and the pruning."""
    before = [checkpoint for checkpoint in listed(folder) if checkpoint.step < newest.step]
    for checkpoint in before[: max(0, len(before) - (keep - 1))]:
        _drop(checkpoint)


def newest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest sound checkpoint, if there is any at all, and a sentence for each damaged one that is passed over."""
    passed_over: list[tuple[Path, str]] = []
    for checkpoint in reversed(listed(folder)):
        if not (reason := damage(checkpoint)):
            return checkpoint, [f"{path} {why}: the checkpoint before it is used" for path, why in passed_over]
        passed_over.append((checkpoint.path, reason))
    if passed_over:
        names = ", ".join(path.name for path, _ in passed_over)
        reasons = {why for _, why in passed_over}
        if reasons == {DAMAGED}:
            raise CheckpointError(
                f"every checkpoint in {folder} is damaged ({names}): delete them to begin this run again"
            )
        reported = "; ".join(f"{path.name} {why}" for path, why in passed_over)
        raise CheckpointError(f"no checkpoint in {folder} can be used ({reported}): mend or delete them")
    return None, []


DAMAGED = "is damaged"


def damage(checkpoint: Checkpoint) -> str:
    """Why a checkpoint is not what was written, to follow its name in a sentence; empty if it is sound."""
    digest = hashlib.sha256()
    try:
        if checkpoint.is_sharded:
            return DAMAGED if sharded_checkpoint.damage(checkpoint.path, checkpoint.digest) else ""
        with open_regular(checkpoint.path) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    return "" if digest.hexdigest()[:16] == checkpoint.digest else DAMAGED


def sound(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint is what was written."""
    return not damage(checkpoint)


def read(checkpoint: Checkpoint) -> dict[str, Any]:
    """Load a checkpoint to the CPU; it can hold tensors and plain values only."""
    import torch

    if checkpoint.is_sharded:
        return sharded_checkpoint.read_whole(checkpoint.path)
    try:
        with open_regular(checkpoint.path) as file:
            loaded = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"{checkpoint.path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # torch and its pickles raise anything over bytes that they did not write
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{checkpoint.path} is not a checkpoint: {first}; delete it") from error
    if not isinstance(loaded, dict):
        raise CheckpointError(f"{checkpoint.path} is not a checkpoint: it holds a {type(loaded).__name__}; delete it")
    return loaded


def check_parts(checkpoint: Checkpoint, content: Mapping[str, Any], parts: Mapping[str, type] = PARTS) -> None:
    """Refuse a file that lacks what a checkpoint holds."""
    wrong = [name for name, kind in parts.items() if not isinstance(content.get(name), kind)]
    if "marks" in parts and "marks" not in wrong and not all(type(size) is int for size in content["marks"].values()):
        wrong.append("marks")
    if wrong:
        raise CheckpointError(
            f"{checkpoint.path} is not a checkpoint of a run: it has no {', '.join(wrong)}; delete it"
        )


def check_owner(
    checkpoint: Checkpoint, content: Mapping[str, Any], config: str, restated: Collection[str] = ()
) -> None:
    """Refuse the checkpoint of a run that has another configuration, saying what differs."""
    before = content.get(CONFIG)
    if not isinstance(before, str) or not (changes := changed_bindings(before, config, RUN_CONTROL, restated)):
        return
    raise CheckpointError(
        f"{checkpoint.path} is the checkpoint of another run (-: that run, +: this one):\n"
        + "\n".join(changes)
        + "\nPut it back where it belongs, or delete it"
    )


def probe(folder: Path, size: int, keep: int) -> None:
    """Say now, rather than after an hour, that `keep` checkpoints of `size` bytes and a next one have no room here."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left_over in folder.glob(f"*{TEMPORARY}"):  # of a process that was killed while it wrote
            if left_over.is_dir():
                sharded_checkpoint.drop(left_over)
            else:
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
