"""The files that something was made from: are they still what they were?

Size and time of a file answer at once; where these differ, the hash of its content decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.documents import File, listing
from zoo.data.progress import progress
from zoo.errors import DataError
from zoo.system.regular_files import open_regular


class Source(NamedTuple):
    """A file as it was when it was read."""

    name: str  # relative to the corpus
    size: int
    mtime: int  # nanoseconds
    sha256: str = ""  # of its content; empty: not read yet

    @classmethod
    def of(cls, row: dict[str, Any]) -> Source:
        """From a row of a manifest; a `TypeError` or `KeyError` if it is none."""
        name, size, mtime, sha256 = row["name"], row["size"], row["mtime"], row["sha256"]
        if not (isinstance(name, str) and type(size) is type(mtime) is int and isinstance(sha256, str)):
            raise TypeError("a source has a name, a size, a time and a hash")
        return cls(name, size, mtime, sha256)


def seen(files: Iterable[File]) -> tuple[Source, ...]:
    """The files as they are now, without reading them."""
    try:
        states = [(file.name, file.path.stat()) for file in files]
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error
    return tuple(Source(spelt_name(name), state.st_size, state.st_mtime_ns) for name, state in states)


def hashed(files: Sequence[File], name: str) -> tuple[Source, ...]:
    """The files as they are now, with the hashes of their contents."""
    sources = seen(files)
    with progress(f"reading {name}", sum(source.size for source in sources)) as advance:
        return tuple(
            source._replace(sha256=file_hash(file.path, advance)) for file, source in zip(files, sources, strict=True)
        )


def same_times(now: Sequence[Source], before: Sequence[Source]) -> bool:
    """Whether names, sizes and times are the same: then so is the content."""
    return [source[:3] for source in now] == [source[:3] for source in before]


def same_content(now: Sequence[Source], before: Sequence[Source]) -> bool:
    """Whether names, sizes and contents are the same."""
    return [(s.name, s.size, s.sha256) for s in now] == [(s.name, s.size, s.sha256) for s in before]


def may_be_same(now: Sequence[Source], before: Sequence[Source]) -> bool:
    """Whether names and sizes are the same: then the content is worth reading."""
    return [source[:2] for source in now] == [source[:2] for source in before]


def check_unchanged(files: Iterable[File], before: Sequence[Source]) -> None:
    """Refuse what was made of files that changed while they were read."""
    now = seen(files)
    if not same_times(now, before):
        changed = [source.name for source, old in zip(now, before, strict=True) if source[:3] != old[:3]]
        raise DataError(f"{listing(changed)} changed while it was read: run the same command again")


def file_hash(path: Path, advance: Any = None) -> str:
    """The SHA-256 of a file's content."""
    total = hashlib.sha256()
    try:
        with open_regular(path) as file:
            while block := file.read(1 << 20):
                total.update(block)
                if advance:
                    advance(len(block))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return total.hexdigest()


def spelt_name(name: str) -> str:
    """A name that JSON can hold: what is not UTF-8 in it is spelt out."""
    return name.encode("utf-8", "backslashreplace").decode()
