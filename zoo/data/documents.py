"""A document of a corpus, and the file it is read from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class Document(NamedTuple):
    key: str  # decides the split: a file's name or, of a part of a file, a hash of its text
    text: str


class File(NamedTuple):
    path: Path
    name: str  # relative to the corpus
    kind: str  # the name of its format in the table of readers


def pieces(text: str) -> Iterator[str]:
    """Cut a text into a hundred pieces or more, if it has the length, after blank lines, else lines, else words."""
    size = min(max(len(text) // 100, 200), 16384)
    start = 0
    while len(text) - start > 2 * size:
        window = text[start : start + 2 * size]
        ends = (cut + len(mark) for mark in ("\n\n", "\n", " ") if (cut := window.find(mark, size)) >= 0)
        piece = window[: next(ends, len(window))]
        yield piece
        start += len(piece)
    yield text[start:]


def digest(text: str) -> str:
    # A file's name need not be UTF-8.
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def listing(names: Iterable[str], count: int = 5) -> str:
    listed = list(names)
    return ", ".join(listed[:count]) + (f" and {len(listed) - count} more" if len(listed) > count else "")
