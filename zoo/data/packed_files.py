"""The bytes of a file in chunks, unpacked if its name ends in .gz or .zst; never more of it in memory than a chunk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import BinaryIO

from zoo.data.documents import BrokenFile
from zoo.errors import DataError
from zoo.system.regular_files import open_regular

CHUNK = 1 << 20
PACKINGS = {".gz": "gzip", ".zst": "zstd"}  # suffix → the name of the codec in pyarrow
# What unpacks to more than so many times its size, and to more than so many bytes, is no text but a trap.
MOST_UNPACKED = 200
HARMLESS = 64 << 20


def plain_name(name: str) -> str:
    """The name of a file without the suffix of its packing."""
    path = PurePath(name)
    return name[: -len(path.suffix)] if path.suffix.lower() in PACKINGS else name


def read_chunks(path: Path) -> Iterator[bytes]:
    """The content of a regular file, unpacked."""
    codec = PACKINGS.get(path.suffix.lower())
    try:
        with open_regular(path) as file:
            if codec is None:
                while chunk := file.read(CHUNK):
                    yield chunk
            else:
                yield from _unpacked(path, file, codec)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def open_unpacked(path: Path) -> BinaryIO:
    """A regular file for readers that seek; a packed one is unpacked into a temporary file, which has no name."""
    if path.suffix.lower() not in PACKINGS:
        return open_regular(path)
    unpacked: BinaryIO = tempfile.TemporaryFile(prefix="zoo-unpacked-")  # noqa: SIM115  # the caller closes it
    try:
        for chunk in read_chunks(path):
            unpacked.write(chunk)
        unpacked.seek(0)
    except OSError as error:
        unpacked.close()
        where = tempfile.gettempdir()
        raise DataError(
            f"{path} cannot be unpacked into {where}: {error.strerror or error}; unpack it, or set $TMPDIR"
        ) from error
    except BaseException:
        unpacked.close()
        raise
    return unpacked


def _unpacked(path: Path, file: BinaryIO, codec: str) -> Iterator[bytes]:
    import pyarrow as pa

    most = max(HARMLESS, MOST_UNPACKED * os.fstat(file.fileno()).st_size)
    total = 0
    with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), codec) as stream:
        while True:
            try:
                chunk: bytes = stream.read(CHUNK)
            except (pa.ArrowException, OSError) as error:
                reason = str(error).splitlines()[0].rstrip(".")
                raise BrokenFile(f"{path} cannot be unpacked ({reason}): it is damaged, or no {codec} file") from error
            if not chunk:
                return
            total += len(chunk)
            if total > most:
                raise BrokenFile(
                    f"{path} unpacks to more than {MOST_UNPACKED} times its size, as no text does: unpack it yourself"
                    " if you trust it"
                )
            yield chunk
