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
from zoo.system.lock import try_lock
from zoo.system.regular_files import open_regular, possible, read_regular

PREFIX = "zoo-cache-"  # of temporary folders
OWNER = "owner.lock"  # in such a folder, locked as long as its process lives


def _usable(path: Path) -> bool:
    """Whether a file can be used, if its maker has no better test."""
    return True


class Cache:
    """A folder of such files: as given, else $ZOO_CACHE, else $XDG_CACHE_HOME/zoo, else ~/.cache/zoo.

    If nobody chose the folder and it cannot be written, a temporary one serves until the process ends.
    """

    def __init__(self, folder: str | None = None) -> None:
        chosen = folder or os.environ.get("ZOO_CACHE")
        if chosen and not possible(chosen):
            raise DataError(f"data.cache = {chosen!r} cannot be the name of a folder.")
        self.chosen = bool(chosen)
        self.folder = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "zoo")
        self.notes: list[str] = []  # what a user may want to know: a sentence each
        with contextlib.suppress(OSError):  # where there is no temporary folder, nothing is left in it
            remove_orphans(Path(tempfile.gettempdir()))

    def get(self, name: str, make: Callable[[BinaryIO], None], usable: Callable[[Path], bool] = _usable) -> Path:
        """The file of that name, which `make` writes unless it is there, whole and usable: once, if processes ask at once."""
        try:
            return _get(self.folder.expanduser().absolute() / name, make, usable)
        except (OSError, RuntimeError) as error:  # the latter where there is no home folder
            reason = getattr(error, "strerror", None) or error
            problem = f"The cache folder {self.folder} cannot be written ({reason})"
            remedy = "set data.cache or $ZOO_CACHE to another one"
            if self.chosen:
                raise DataError(f"{problem}: {remedy}.") from error
        try:
            self.chosen, self.folder = True, _temporary()
        except OSError as error:
            raise DataError(f"{problem}, nor any temporary folder: {remedy}.") from error
        self.notes.append(f"{problem}, so each run makes its tokenizer anew: {remedy}.")
        return self.get(name, make, usable)


def _temporary() -> Path:
    """A folder for the life of this process."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = (folder / f"{OWNER}.new").open("wb")
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / f"{OWNER}.new").rename(folder / OWNER)  # only now: whoever finds it unlocked takes it for an orphan's
    _held.append(lock)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_held: list[BinaryIO] = []  # locks, closed when the process ends, however it ends


def remove_orphans(parent: Path) -> None:
    """Remove the temporary caches in this folder whose processes are gone."""
    for owner in parent.glob(f"{PREFIX}*/{OWNER}"):
        with contextlib.suppress(OSError):
            if owner.lstat().st_uid != os.getuid() or owner.parent.is_symlink():
                continue
            with open_regular(owner) as file:
                if try_lock(file):
                    shutil.rmtree(owner.parent, ignore_errors=True)


def _get(path: Path, make: Callable[[BinaryIO], None], usable: Callable[[Path], bool]) -> Path:
    if not (_whole(path) and usable(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _lock(path.with_name(path.name + ".lock")):
            if not (_whole(path) and usable(path)):  # nobody made it while this process waited
                _write(path, make)
    return path


def _whole(path: Path) -> bool:
    """Whether the file is as it was written: its hash stands beside it."""
    try:
        return read_regular(_checksum(path)).decode("ascii") == _hash(path)
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
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()
