"""Files that are replaced as a whole or not at all, and such that only grow, a line of JSON at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TEMPORARY = ".tmp"


def write_atomically(path: Path, text: str) -> None:
    """Replace a text file as a whole, or leave it as it was."""
    replace_file(path, text.encode())


def write_pieces_atomically(path: Path, pieces: Iterable[str]) -> None:
    """Replace a text file as a whole, or leave it as it was; of a long text no more than a piece is in memory."""
    _replace(path, (piece.encode() for piece in pieces))


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file by these bytes, or leave it as it was."""
    _replace(path, [content])


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with temporary.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Bring a rename itself to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    """Add a line; several processes may do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")  # a line that was cut off stays alone
        file.write(json.dumps(row, allow_nan=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
