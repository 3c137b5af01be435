"""The folder of a run: one process at a time, everything needed to run it again, nothing of another run.

config.gin  operative.gin  raw/        the configuration: whole and re-runnable, what was used of it, as it was given
versions.json  tokenizer.model         what it was made with
metrics.jsonl  events.out.tfevents.*   what was measured (zoo.records)
checkpoints/                           where it can go on from (zoo.checkpoint)
summary.json                           how it ended
run.lock                               held while a process works here
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import fcntl
import hashlib
import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import RunError
from zoo.files import replace_file, write_atomically
from zoo.gin_values import changed

if TYPE_CHECKING:
    from zoo.config import Config

LOCK = "run.lock"

# What the system says when a disk is full, a quota is used up, a folder cannot be written or a disk fails.
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


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
        lock = (folder / LOCK).open("a")
    except OSError as error:
        raise RunError(f"{folder} cannot be used as the folder of a run: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"another process is working in {folder}; wait for it, or name another folder with --run"
            ) from error
        except OSError as error:
            raise RunError(
                f"{folder} cannot be locked: {error.strerror}; name a folder elsewhere with --run"
            ) from error
        check_config(folder, config.text)
        check_defaults(folder, config)
        try:
            yield
        finally:
            _leave(folder)


def wait_until_free(folder: Path, seconds: float) -> None:
    """Let a process that works there finish, for so long; whether it did, `opened` tells."""
    until = time.monotonic() + seconds
    while (folder / LOCK).exists():
        with (folder / LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > until:
                    return
        time.sleep(0.2)


def _leave(folder: Path) -> None:
    """Take a folder away again in which nothing has begun."""
    with contextlib.suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()


def check_config(folder: Path, text: str) -> None:
    """Refuse to go on under another configuration, saying what differs."""
    if not begun(folder):
        return
    file = folder / "config.gin"
    lines = difflib.unified_diff(_bindings(file.read_text(encoding="utf-8")), _bindings(text), n=0, lineterm="")
    changes = [
        f"  {line[0]} {line[1:]}" for line in lines if not line.startswith(("---", "+++", "@@")) and line[1:].strip()
    ]
    if changes:
        own = shlex.join(["zoo-train", "--gin", str(file), "--run", str(folder)])
        raise RunError(
            f"the run in {folder} has another configuration (-: that run, +: this command):\n" + "\n".join(changes) +
            f"\nContinue it with its own ({own}), or name another folder with --run"
        )  # fmt: skip


def check_defaults(folder: Path, config: Config) -> None:
    """Refuse to go on where a default that nobody bound has changed since: it would be neither the one run nor the other."""
    if begun(folder) and (changes := changed(operative(folder), config.whole())):
        raise RunError(
            f"since the run in {folder} began, defaults have changed:\n" +
            "".join(f"  {change}\n" for change in changes) +
            "Go on with the version that began it, or name another folder with --run"
        )  # fmt: skip


def operative(folder: Path) -> dict[str, str]:
    """What the run in this folder was started with, value by value, defaults too."""
    file = folder / "operative.gin"
    lines = _bindings(file.read_text(encoding="utf-8")) if file.exists() else []
    return {key: value for key, _, value in (line.partition(" = ") for line in lines)}


def _bindings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def check_identity(folder: Path, identity: dict[str, Any]) -> None:
    """Refuse to go on with another corpus, tokenizer or number of processes."""
    if not begun(folder):
        return
    kept = versions(folder)
    changed = {name: value for name, value in identity.items() if kept.get(name) != value}
    changes = [f"  {name}: {kept.get(name)} in that run, {value} now" for name, value in changed.items()]
    if changes:
        raise RunError(f"the run in {folder} cannot be continued here:\n" + "\n".join(changes))


def identity(data: Any, size: int) -> dict[str, Any]:
    """What must stay the same for the same run, beside its configuration."""
    tokenizer = Path(data.tokenizer.path).read_bytes()
    return {"corpus": data.fingerprint, "tokenizer": hashlib.sha256(tokenizer).hexdigest(), "world_size": size}


def versions(folder: Path) -> dict[str, Any]:
    """What the run in this folder was started with."""
    found: dict[str, Any] = json.loads((folder / "versions.json").read_text(encoding="utf-8"))
    return found


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn a folder that cannot be written into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK:
            raise
        raise RunError(f"{folder} cannot be written: {error.strerror}") from error


def begun(folder: Path) -> bool:
    """Whether the folder describes a run; its configuration is the last thing that `describe` writes."""
    return (folder / "config.gin").exists()


def describe(folder: Path, config: Config, made_with: dict[str, Any], tokenizer: Path) -> list[str]:
    """Write what is needed to run it again; of a run that goes on, say what changed around it since."""
    if not begun(folder):
        _write_raw(folder / "raw", config)
        replace_file(folder / "tokenizer.model", tokenizer.read_bytes())
        write_atomically(folder / "operative.gin", config.operative())
        write_atomically(folder / "versions.json", json.dumps(made_with, indent=2) + "\n")
        write_atomically(folder / "config.gin", config.text)
        return []
    kept = versions(folder)
    changed = differences(kept, made_with)
    if changed:
        kept["later"] = [*kept.get("later", []), made_with]
        write_atomically(folder / "versions.json", json.dumps(kept, indent=2) + "\n")
    return changed


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
