"""A file that one process at a time holds; the system lets go of it when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO


def open_lock(path: Path) -> IO[bytes]:
    """The file to lock, made if it is not there; a pipe in its place is opened without waiting for whoever writes to it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)


def try_lock(file: IO[bytes]) -> bool:
    """Hold an open file until it is closed; false if another holds it, an `OSError` where the file system has no locks.

    A holder may remove the file before it lets go: whoever had opened it by then holds nothing, and is told so.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(file.fileno()).st_nlink > 0
