"""A document of a corpus, the file it is read from, and what is broken among them."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from zoo.errors import DataError

PIECES = 100  # of a text, if it has the length
PIECE = 16384  # characters: the size of a long text's pieces


class Document(NamedTuple):
    key: str  # decides the split: a file's name or, of a part of a file, a hash of its text
    text: str


class File(NamedTuple):
    path: Path
    name: str  # relative to the corpus
    kind: str  # the name of its format in the table of readers


class Broken(NamedTuple):
    """A record that is no document: the sentence says where it stands, what is wrong, and what to do."""

    sentence: str


class BrokenFile(DataError):
    """A file that cannot be read on from here: what follows in it is lost."""


@dataclasses.dataclass
class Skipped:
    """What was left out because it is broken: records, and files from where they are."""

    count: int = 0
    first: str = ""  # the sentence about the first of them

    def add(self, sentence: str) -> None:
        self.count += 1
        self.first = self.first or sentence

    @property
    def note(self) -> str:
        """A sentence for the user; empty if nothing was skipped."""
        return f"left out {self.count:,} broken records or files, the first: {self.first}" if self.count else ""


def pieces(parts: Iterable[str]) -> Iterator[str]:
    """Cut a text into a hundred pieces or more, if it has the length, after blank lines, else lines, else words.

    The text comes in parts, of which no more are held than the cuts depend on.
    """
    waiting = iter(parts)
    text = _beginning(waiting)
    size = min(max(len(text) // PIECES, 200), PIECE)
    start = 0
    while True:
        while len(text) - start <= 2 * size:
            part = next(waiting, None)
            if part is None:
                yield text[start:]
                return
            text, start = text[start:] + part, 0
        window = text[start : start + 2 * size]
        ends = (cut + len(mark) for mark in ("\n\n", "\n", " ") if (cut := window.find(mark, size)) >= 0)
        piece = window[: next(ends, len(window))]
        yield piece
        start += len(piece)


def _beginning(waiting: Iterator[str]) -> str:
    """All of a text, or as much of it as makes the size of its pieces independent of what follows."""
    held: list[str] = []
    length = 0
    for part in waiting:
        held.append(part)
        length += len(part)
        if length >= PIECES * PIECE:
            break
    return "".join(held)


def one_or_pieces(name: str, parts: Iterable[str], longest: int) -> Iterator[Document]:
    """A text as one document with the name as its key; cut into pieces if it has more than `longest` bytes."""
    waiting = iter(parts)
    held: list[str] = []
    length = 0
    for part in waiting:
        held.append(part)
        length += len(part.encode())
        if length > longest:
            yield from keyed(pieces(itertools.chain(held, waiting)))
            return
    yield Document(name, "".join(held))


def keyed(texts: Iterable[str]) -> Iterator[Document]:
    """Documents with a hash of their texts as keys."""
    return (Document(digest(text), text) for text in texts)


def digest(text: str) -> str:
    # A file's name need not be UTF-8.
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def listing(names: Iterable[str], count: int = 5) -> str:
    listed = list(names)
    return ", ".join(listed[:count]) + (f" and {len(listed) - count} more" if len(listed) > count else "")
