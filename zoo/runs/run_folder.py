"""The folder of a run: one process at a time, everything needed to run it again, nothing of another run.

config.gin  operative.gin  raw/        the configuration: whole and re-runnable, what was used of it, as it was given
versions.json  tokenizer.model         what it was made with
metrics.jsonl  events.out.tfevents.*   what was measured (zoo.runs.metrics)
checkpoints/                           where it can go on from (zoo.runs.checkpoint)
summary.json                           how it ended
run.lock                               held while a process works here
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.config.values import changed, changed_bindings, parse_bindings
from zoo.errors import RunError
from zoo.runs.run_control import RUN_CONTROL
from zoo.system.files import replace_file, write_atomically
from zoo.system.lock import open_lock, try_lock
from zoo.system.regular_files import parse_object, read_regular, read_text

if TYPE_CHECKING:
    from zoo.config.configuration import Config

LOCK = "run.lock"
VERSIONS = "versions.json"

# What the system says when a disk is full, a quota is used up, a folder cannot be written or a disk fails.
FULL_OR_FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
# What it says when a file server or a device is gone.
SERVER_GONE = (
    *(errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.EBADF),
    *(errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ENOTCONN),
)
# What it says when someone has removed a file, or put something else in its place.
FILE_GONE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP)


def fault(error: OSError, folder: Path) -> str | None:
    """What failed, in words, if the disk or what holds the run is at fault and not the program."""
    place = str(error.filename or "")
    is_moved = error.errno in FILE_GONE and Path(place).is_relative_to(folder)
    if is_moved or error.errno in (*FULL_OR_FAILED, *SERVER_GONE):
        return (error.strerror or str(error)) + (f" ({place})" if place else "")
    return None


@contextlib.contextmanager
def opened(folder: Path, config: Config) -> Iterator[None]:
    """Make the folder if it is not there, hold it, and refuse one that belongs to something else."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir()}
        if names and not names & {LOCK, "config.gin"}:
            some = ", ".join(sorted(names)[:3])
            raise RunError(
                f"{folder} is not empty and is not the folder of a run (it holds {some}); name another one with --run"
            )
        lock = open_lock(folder / LOCK)
    except OSError as error:
        raise RunError(f"{folder} cannot be used as the folder of a run: {error.strerror or error}") from error
    with lock:
        try:
            is_free = try_lock(lock)
        except OSError as error:
            raise RunError(
                f"{folder} cannot be locked: {error.strerror}; name a folder elsewhere with --run"
            ) from error
        if not is_free:
            raise RunError(f"another process is working in {folder}; wait for it, or name another folder with --run")
        check_config(folder, config)
        check_defaults(folder, config)
        try:
            yield
        finally:
            _leave(folder)


def wait_until_free(folder: Path, seconds: float) -> None:
    """Let a process that works there finish, for so long; whether it did, `opened` tells."""
    until = time.monotonic() + seconds
    while (folder / LOCK).exists():
        with open_lock(folder / LOCK) as lock, contextlib.suppress(OSError):
            if try_lock(lock):
                return
        if time.monotonic() > until:
            return
        time.sleep(0.2)


def _leave(folder: Path) -> None:
    """Remove the folder if no run was begun in it."""
    with contextlib.suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()


def check_config(folder: Path, config: Config) -> None:
    """Refuse to go on under another configuration, saying what differs."""
    if not begun(folder):
        return
    file = folder / "config.gin"
    if changes := changed_bindings(_own_text(file), config.text, RUN_CONTROL, config.restated):
        own = shlex.join(["zoo-train", "--gin", str(file), "--run", str(folder)])
        raise RunError(
            f"the run in {folder} has another configuration (-: that run, +: this command):\n"
            + "\n".join(changes)
            + f"\nContinue it with its own ({own}), or name another folder with --run"
        )


def check_defaults(folder: Path, config: Config) -> None:
    """Refuse to go on where a default that nobody bound has changed since: it would be neither the one run nor the other."""
    if not begun(folder):
        return
    now = {key: value for key, value in config.whole().items() if key not in RUN_CONTROL}
    if changes := changed(operative(folder), now):
        raise RunError(
            f"since the run in {folder} began, defaults have changed:\n"
            + "".join(f"  {change}\n" for change in changes)
            + "Go on with the version that began it, or name another folder with --run"
        )


def operative(folder: Path) -> dict[str, str]:
    """What the run in this folder was started with, value by value, defaults too."""
    file = folder / "operative.gin"
    return parse_bindings(_own_text(file)) if file.exists() else {}


def _own_text(file: Path) -> str:
    try:
        return read_text(file, RunError)
    except RunError as error:
        raise RunError(f"{error}; put back a copy of that file, or name another folder with --run") from error


def check_identity(folder: Path, identity: dict[str, Any]) -> None:
    """Refuse to go on with another corpus or tokenizer."""
    if not begun(folder):
        return
    before = known_versions(folder) or {**identity, **_own_tokenizer(folder)}  # the checkpoint knows its corpus as well
    changed = {name: value for name, value in identity.items() if before.get(name) != value}
    changes = [f"  {name}: {before.get(name)} in that run, {value} now" for name, value in changed.items()]
    if changes:
        raise RunError(f"the run in {folder} cannot be continued here:\n" + "\n".join(changes))


def _own_tokenizer(folder: Path) -> dict[str, str]:
    """The tokenizer's part of a run's identity, from the file itself, if it can be read."""
    try:
        return {"tokenizer": hashlib.sha256(read_regular(folder / "tokenizer.model")).hexdigest()}
    except OSError:
        return {}


def identity(data: Any) -> dict[str, Any]:
    """What must stay the same for the same run, beside its configuration."""
    return {"corpus": data.fingerprint, "tokenizer": data.tokenizer.identity}


def world_size(folder: Path) -> int | None:
    """The number of processes that began the run in this folder; None where none was begun, or nobody knows."""
    size = known_versions(folder).get("world_size") if begun(folder) else None
    return size if isinstance(size, int) and size > 0 else None


def read_provenance(folder: Path) -> dict[str, Any]:
    """What the run in this folder was started with; a sentence if that can no longer be read."""
    file = folder / VERSIONS
    try:
        return parse_object(read_regular(file))
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise RunError(f"{file} is damaged: {error}") from error


def known_versions(folder: Path) -> dict[str, Any]:
    """What the run in this folder was started with, as far as it can still be read: nothing at all if it cannot."""
    try:
        return read_provenance(folder)
    except RunError:
        return {}


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn a folder that cannot be written into a sentence."""
    try:
        yield
    except OSError as error:
        if not (reason := fault(error, folder)):
            raise
        raise RunError(f"{folder} cannot be written: {reason}") from error


def begun(folder: Path) -> bool:
    """Whether the folder describes a run; its configuration is the last thing that `describe` writes."""
    return (folder / "config.gin").exists()


def describe(folder: Path, config: Config, made_with: dict[str, Any], tokenizer: bytes) -> list[str]:
    """Write what is needed to run it again; of a run that goes on, say what changed around it since."""
    if not begun(folder):
        _write_raw(folder / "raw", config)
        replace_file(folder / "tokenizer.model", tokenizer)
        write_atomically(folder / "operative.gin", config.operative())
        _write_versions(folder, made_with)
        write_atomically(folder / "config.gin", config.text)
        return []
    mended = _mend_tokenizer(folder / "tokenizer.model", tokenizer)
    try:
        noted = read_provenance(folder)
    except RunError as error:
        _write_versions(folder, made_with)
        return [*mended, f"{error}; it was written anew, with the versions of now"]
    changed = differences(noted, made_with)
    if changed:
        later = noted.get("later", [])
        noted["later"] = [*(later if isinstance(later, list) else []), made_with]
        _write_versions(folder, noted)
    return mended + changed


def _mend_tokenizer(file: Path, content: bytes) -> list[str]:
    """Write the tokenizer again if it is gone or altered: the one in use is that of the run, or it would not resume."""
    try:
        if read_regular(file) == content:
            return []
    except OSError:
        pass
    if file.is_dir():
        raise RunError(f"{file} is a folder: remove it")
    replace_file(file, content)
    return [f"{file} was missing or altered: it was written anew"]


def _write_versions(folder: Path, made_with: dict[str, Any]) -> None:
    write_atomically(folder / VERSIONS, json.dumps(made_with, indent=2) + "\n")


def differences(before: dict[str, Any], now: dict[str, Any], path: str = "") -> list[str]:
    """The leaves that differ between two nested records."""
    changes = []
    for key in now.keys() & before.keys() - {"started", "later"}:
        old, new = before[key], now[key]
        if isinstance(old, dict) and isinstance(new, dict):
            changes += differences(old, new, f"{path}{key} ")
        elif old != new:
            changes.append(f"since this run began, {path}{key} changed from {old} to {new}")
    return sorted(changes)


def _write_raw(folder: Path, config: Config) -> None:
    folder.mkdir(exist_ok=True)
    for number, (path, text) in enumerate(config.files):
        (folder / f"{number:02d}_{Path(path).name}").write_text(text, encoding="utf-8")
    (folder / "bindings.gin").write_text("".join(f"{binding}\n" for binding in config.bindings), encoding="utf-8")
