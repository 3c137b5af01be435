"""Files that are replaced as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

TEMPORARY = ".tmp"


def write_atomically(path: Path, text: str) -> None:
    """Replace a text file as a whole, or leave it as it was."""
    replace_file(path, text.encode())


def replace_file(path: Path, content: bytes) -> None:
    """… whatever is in it."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with temporary.open("wb") as file:
            file.write(content)
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
