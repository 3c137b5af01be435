"""Files that are made once, whoever asks first, and made again when they are damaged."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from zoo.errors import DataError


class Cache:
    """A folder of such files: as given, else $ZOO_CACHE, else $XDG_CACHE_HOME/zoo, else ~/.cache/zoo.

    If nobody chose the folder and it cannot be written, a temporary one serves until the process ends.
    """

    def __init__(self, folder: str | None = None) -> None:
        chosen = folder or os.environ.get("ZOO_CACHE")
        self.chosen = bool(chosen)
        self.folder = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "zoo")
        self.notes: list[str] = []  # what a user may want to know: a sentence each

    def get(self, name: str, make: Callable[[BinaryIO], None]) -> Path:
        """The file of that name, which `make` writes unless it is there and whole: once, if processes ask at once."""
        try:
            return _get(self.folder.expanduser().absolute() / name, make)
        except (OSError, RuntimeError) as error:  # the latter where there is no home folder
            reason = getattr(error, "strerror", None) or error
            problem = f"The cache folder {self.folder} cannot be written ({reason})"
            remedy = "set data.cache or $ZOO_CACHE to another one"
            if self.chosen:
                raise DataError(f"{problem}: {remedy}.") from error
        self.chosen, self.folder = True, Path(tempfile.mkdtemp(prefix="zoo-"))
        self.notes.append(f"{problem}, so each run makes its tokenizer anew: {remedy}.")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        return self.get(name, make)


def _get(path: Path, make: Callable[[BinaryIO], None]) -> Path:
    if not _whole(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _lock(path.with_name(path.name + ".lock")):
            if not _whole(path):  # nobody made it while this process waited
                _write(path, make)
    return path


def _whole(path: Path) -> bool:
    """Whether the file is as it was written: its hash stands beside it."""
    try:
        return _checksum(path).read_text(encoding="ascii") == _hash(path)
    except (OSError, ValueError):
        return False


def _write(path: Path, make: Callable[[BinaryIO], None]) -> None:
    # The names are this process's own, for file systems where the lock does not hold.
    draft, checksum = (path.with_name(f".{path.name}.{os.getpid()}.{kind}") for kind in ("tmp", "sum"))
    try:
        with draft.open("wb") as file:
            make(file)
            file.flush()
            os.fsync(file.fileno())
        checksum.write_text(_hash(draft), encoding="ascii")
        os.replace(draft, path)
        os.replace(checksum, _checksum(path))  # the last step: until then the file does not count
    finally:
        draft.unlink(missing_ok=True)
        checksum.unlink(missing_ok=True)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("wb") as file:
        with contextlib.suppress(OSError):  # where a file system has no locks, the work may be done twice
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _checksum(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _hash(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()
