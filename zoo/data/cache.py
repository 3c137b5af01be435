"""The folder for what is made once and used by all runs, and who may write there."""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from zoo.errors import DataError
from zoo.system.lock import open_lock, try_lock
from zoo.system.regular_files import open_regular, possible

log = logging.getLogger(__name__)
Made = TypeVar("Made")

PREFIX = "zoo-cache-"  # of temporary folders
OWNER = "owner.lock"  # in such a folder, locked as long as its process lives
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # room is needed, not another folder


class Cache:
    """The folder: as given, else $ZOO_CACHE, else $XDG_CACHE_HOME/zoo, else ~/.cache/zoo.

    If nobody chose the folder and it cannot be written, a temporary one serves until the process ends.
    """

    def __init__(self, folder: str | None = None) -> None:
        chosen = folder or os.environ.get("ZOO_CACHE")
        if chosen and not possible(chosen):
            raise DataError(f"data.cache = {chosen!r} cannot be the name of a folder")
        self.chosen = bool(chosen)
        self.folder = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "zoo")
        self.notes: list[str] = []  # what a user may want to know: a sentence each
        with contextlib.suppress(OSError):  # where there is no temporary folder, nothing is left in it
            remove_orphans(Path(tempfile.gettempdir()))

    def with_folder(self, make: Callable[[Path], Made]) -> Made:
        """What `make` does with the folder, or with a temporary one where nobody chose a folder and this one fails."""
        try:
            return make(self.path())
        except OSError as error:
            is_full = error.errno in FULL
            place = self.folder if error.filename is None else error.filename
            problem = f"{place} cannot be written ({error.strerror or error})"
            remedy = "set data.cache or $ZOO_CACHE to another folder"
            if is_full:
                raise DataError(f"{problem}: make room, and the same command goes on; or {remedy}") from error
            if self.chosen:
                raise DataError(f"{problem}: {remedy}") from error
        try:
            self.chosen, self.folder = True, _temporary()
        except OSError as error:
            raise DataError(f"{problem}, nor any temporary folder: {remedy}") from error
        self.notes.append(f"{problem}, so each run prepares its data anew: {remedy}")
        return self.with_folder(make)

    def path(self) -> Path:
        """The folder, wherever the process stands; an `OSError` where there is no home folder to look in."""
        try:
            return self.folder.expanduser().absolute()
        except RuntimeError as error:
            raise OSError(errno.ENOENT, "there is no home folder", str(self.folder)) from error


@contextlib.contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold a lock, made beside what it guards; if another process has it, say so and wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_lock(path) as file:
        with contextlib.suppress(OSError):  # where a file system has no locks, the work may be done twice
            if not try_lock(file):
                log.info("another process prepares %s: waiting for it", what)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
