"""What a corpus holds, found out by reading it twice: its splits, their sizes, and what identifies it.

It is kept in the cache, a byte per document and a page of JSON, until a file of the corpus changes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from zoo.data import source_files
from zoo.data.cache import held
from zoo.data.corpus import SPLITS, Corpus
from zoo.data.documents import Document, Skipped
from zoo.data.progress import progress
from zoo.data.source_files import Source
from zoo.data.splits import Digests
from zoo.errors import DataError
from zoo.system.files import replace_file
from zoo.system.regular_files import parse_object, read_regular

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)

VERSION = 1


@dataclass(frozen=True)
class Counts:
    """How much a split holds."""

    documents: int = 0
    characters: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Survey:
    """What is known of a corpus before it is encoded."""

    sources: tuple[Source, ...]
    splits: np.ndarray  # of every document its split, by number in SPLITS
    counts: dict[str, Counts]
    fingerprint: str  # of every document and the split it is in
    skipped: str = ""  # a sentence on what was left out

    def documents(self, corpus: Corpus) -> Iterator[tuple[int, Document]]:
        """Every document with the number of its split."""
        index = -1
        for index, (_, document) in enumerate(corpus.documents()):
            if index == len(self.splits):
                break
            yield int(self.splits[index]), document
        if index + 1 != len(self.splits):
            raise DataError(f"{corpus.name} changed while it was read: run the same command again")


def surveyed(corpus: Corpus, cache: Path) -> Survey:
    """The survey of a corpus: from the cache if its files are those of then, else made now."""
    key = hashlib.sha256(repr((VERSION, corpus.root, corpus.reading, corpus.rule)).encode()).hexdigest()[:24]
    path = cache / "surveys" / f"{key}.json"
    if survey := _current(corpus, path, may_write=False):
        return survey
    with held(path.with_suffix(".lock"), corpus.name):
        if survey := _current(corpus, path, may_write=True):
            return survey
        survey = make_survey(corpus)
        _write(survey, path)
        return survey


def _current(corpus: Corpus, path: Path, may_write: bool) -> Survey | None:
    """The survey that is kept, if it is of the files as they are now."""
    survey = _read(path)
    now = source_files.seen(corpus.files)
    if survey is None or not source_files.may_be_same(now, survey.sources):
        return None
    if source_files.same_times(now, survey.sources):
        return survey
    if not may_write:  # reading everything is for whoever holds the lock
        return None
    now = source_files.hashed(corpus.files, corpus.name)
    if not source_files.same_content(now, survey.sources):
        return None
    survey = dataclasses.replace(survey, sources=now)
    _write(survey, path)
    return survey


def make_survey(corpus: Corpus) -> Survey:
    """Read a corpus twice: for its splits, and for its sizes and fingerprint."""
    log.info("reading and encoding %s, once for all runs", corpus.name)
    sources = source_files.hashed(corpus.files, corpus.name)
    skipped = Skipped()
    splits = _splits(corpus, sum(source.size for source in sources), skipped)
    unsized = Survey(sources, splits, {}, "")
    counts, fingerprint = _measured(corpus, unsized)
    source_files.check_unchanged(corpus.files, sources)
    if not any(each.documents for each in counts.values()):
        raise DataError(f"{corpus.name} holds no text{f': {skipped.note}' if skipped.count else ''}")
    if empty := [split for split in ("train", "valid") if not counts[split].documents]:
        raise DataError(f"{corpus.name} has no text for its {empty[0]} split: give more, or a file {empty[0]}.txt")
    return Survey(sources, splits, counts, fingerprint, f"{corpus.name}: {skipped.note}" if skipped.count else "")


def _splits(corpus: Corpus, size: int, skipped: Skipped) -> np.ndarray:
    """The split of every document: that of its group, or one that is taken out of the group."""
    import numpy as np

    digests, declared = Digests(), bytearray()
    with progress(f"splitting {corpus.name}", size) as advance:
        for split, document in corpus.documents(skipped):
            text = document.text.encode()
            if split == "train" and corpus.held_out:
                digests.add(document.key, text)
            declared.append(SPLITS.index(split))
            advance(len(text))
    splits = np.frombuffer(bytes(declared), np.uint8)
    if not corpus.held_out:
        return splits
    divided = digests.divide(corpus.held_out)  # the documents of train come first
    return np.concatenate([divided, splits[len(divided) :]])


def _measured(corpus: Corpus, survey: Survey) -> tuple[dict[str, Counts], str]:
    """Documents, characters and bytes of each split, and the fingerprint.

    The fingerprint is a hash of all documents split by split: those of later splits wait in files for their turn.
    """
    totals = [[0, 0, 0] for _ in SPLITS]
    fingerprint = hashlib.sha256()
    size = sum(source.size for source in survey.sources)
    with _waiting_room(), tempfile.TemporaryFile() as valid, tempfile.TemporaryFile() as test:
        waiting: list[IO[bytes]] = [valid, test]
        with progress(f"measuring {corpus.name}", size) as advance:
            for split, document in survey.documents(corpus):
                text = document.text.encode()
                totals[split] = [a + b for a, b in zip(totals[split], (1, len(document.text), len(text)), strict=True)]
                marked = SPLITS[split].encode() + b"\0" + text
                framed = b"%d\n" % len(marked)
                if split:
                    waiting[split - 1].write(framed)
                    waiting[split - 1].write(marked)
                else:
                    fingerprint.update(framed)
                    fingerprint.update(marked)
                advance(len(text))
        for file in waiting:
            file.seek(0)
            while block := file.read(1 << 20):
                fingerprint.update(block)
    counts = {split: Counts(*total) for split, total in zip(SPLITS, totals, strict=True)}
    return counts, fingerprint.hexdigest()


@contextlib.contextmanager
def _waiting_room() -> Iterator[None]:
    """Say which folder is full where documents wait; what is wrong with a corpus is no `OSError`."""
    try:
        yield
    except OSError as error:
        problem = f"{tempfile.gettempdir()} cannot be written ({error.strerror or error})"
        raise DataError(f"{problem}: make room for the texts of valid and test, or set $TMPDIR") from error


def _write(survey: Survey, path: Path) -> None:
    splits = survey.splits.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path.with_suffix(".splits"), splits)
    row = {
        "fingerprint": survey.fingerprint,
        "counts": {split: dataclasses.asdict(counts) for split, counts in survey.counts.items()},
        "skipped": survey.skipped,
        "splits": hashlib.sha256(splits).hexdigest(),
        "sources": [source._asdict() for source in survey.sources],
    }
    replace_file(path, json.dumps(row, indent=1).encode())


def _read(path: Path) -> Survey | None:
    """The survey in a file; None where there is none, or it is damaged."""
    import numpy as np

    try:
        row: dict[str, Any] = parse_object(read_regular(path))
        splits = read_regular(path.with_suffix(".splits"))
        if hashlib.sha256(splits).hexdigest() != row["splits"]:
            return None
        counts = {split: Counts(**row["counts"][split]) for split in SPLITS}
        sources = tuple(map(Source.of, row["sources"]))
        return Survey(sources, np.frombuffer(splits, np.uint8), counts, str(row["fingerprint"]), str(row["skipped"]))
    except (OSError, ValueError, TypeError, LookupError):
        return None
