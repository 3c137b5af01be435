"""Reading files that others made: only regular ones, without waiting, and with a sentence for what cannot be read.

A pipe, a device or a folder in the place of a file is refused rather than opened: reading it could wait for ever.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from zoo.errors import ZooError


def possible(path: str) -> bool:
    """Whether a text can be the name of a file at all."""
    try:
        return "\0" not in path and bool(os.fsencode(path))
    except UnicodeEncodeError:
        return False


def open_regular(path: Path) -> BinaryIO:
    """The file, open for reading; an `OSError` if it is anything but a regular file."""
    try:
        # A pipe without a writer would block here, and some files of the kernel at their first read.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # NUL, or what the file system cannot encode
        raise OSError(errno.EINVAL, "this cannot be the name of a file", os.fspath(path)) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        return _Waiting(io.FileIO(descriptor), os.fspath(path))
    except BaseException:
        os.close(descriptor)
        raise


class _Waiting(io.BufferedReader):
    """Fails where a file has nothing to read *yet*, which `read` would report as its end."""

    def __init__(self, raw: io.FileIO, path: str) -> None:
        super().__init__(raw)
        self._path = path

    def read(self, size: int | None = -1, /) -> bytes:
        data: bytes | None = super().read(size)
        if data is None:
            raise OSError(errno.EAGAIN, "it has nothing to read yet", self._path)
        return data


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """All of a regular file; an `OSError` if it is longer than `limit` bytes."""
    with open_regular(path) as file:
        data = file.read() if limit is None else file.read(limit + 1)
    if limit is not None and len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", os.fspath(path))
    return data


def read_text(path: Path, failure: type[ZooError]) -> str:
    """A UTF-8 text; `failure` with a sentence for what cannot be read or is none."""
    try:
        return read_regular(path).decode("utf-8")
    except OSError as error:
        raise failure(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise failure(f"{path} is damaged: it is not UTF-8 text (byte {error.start})") from error


def parse_object(text: str | bytes) -> dict[str, Any]:
    """One JSON object; a `ValueError` for everything else, nesting too deep for the parser included."""
    try:
        loaded = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(loaded, dict):
        raise ValueError("it is not a JSON object")
    return loaded
