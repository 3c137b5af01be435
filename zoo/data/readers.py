"""Documents from files, as streams: text, JSONL, Parquet, Arrow, each also packed as .gz or .zst.

Another format is a function and its entry in the table at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

from zoo.data import tables
from zoo.data.documents import (
    Broken,
    BrokenFile,
    Document,
    File,
    Skipped,
    digest,
    keyed,
    listing,
    one_or_pieces,
    pieces,
)
from zoo.data.packed_files import PACKINGS, plain_name, read_chunks
from zoo.data.text_stream import read_lines, read_parts
from zoo.errors import DataError

LONGEST = 64 << 20  # bytes: of a text file that is one document, and of a line of JSONL


def read_documents(
    files: Iterable[File], text_key: str, whole: bool, skip_bad: bool = False, skipped: Skipped | None = None
) -> Iterator[Document]:
    """The documents that hold more than blanks.

    With `skip_bad`, what is broken is left out and counted in `skipped`; else the first of it ends the reading.
    """
    counter = skipped if skipped is not None else Skipped()
    for file in files:
        for document in _unbroken(file, text_key, whole, counter if skip_bad else None):
            if not (document.text == "" or document.text.isspace()):
                yield document


def _unbroken(file: File, text_key: str, whole: bool, skipped: Skipped | None) -> Iterator[Document]:
    try:
        for document in READERS[file.kind].read(file, text_key, whole):
            if not isinstance(document, Broken):
                yield document
            elif skipped is not None:
                skipped.add(document.sentence)
            else:
                raise DataError(f"{document.sentence}, or leave such records out with data.skip_bad = True")
    except BrokenFile as error:
        if skipped is None:
            raise
        skipped.add(str(error))


def kind_of(name: str) -> str | None:
    """The format of a file by its name, packed or not; None if it has none that is known."""
    return KINDS.get(PurePath(plain_name(name)).suffix.lower())


def suffixes() -> str:
    """The names that files may have, for a sentence."""
    return f"{', '.join(KINDS)}, each also with {' or '.join(PACKINGS)}"


# file, key of the text, whether a text file is one document
Read = Callable[[File, str, bool], Iterable["Document | Broken"]]


class Reader(NamedTuple):
    """How the files of one format are recognised and read."""

    suffixes: tuple[str, ...]
    read: Read


def _from_text(file: File, text_key: str, whole: bool) -> Iterator[Document]:
    parts = read_parts(file.path, read_chunks(file.path))
    return one_or_pieces(file.name, parts, LONGEST) if whole else keyed(pieces(parts))


def _from_records(texts: Callable[[Path, str], Iterator[str | Broken]]) -> Read:
    """Read a format whose files hold records, each of them a document."""

    def read(file: File, text_key: str, whole: bool) -> Iterator[Document | Broken]:
        for text in texts(file.path, text_key):
            if isinstance(text, Broken):
                yield text
            else:
                plain = text.replace("\r\n", "\n").replace("\r", "\n")
                yield Document(digest(plain), plain)

    return read


def _read_jsonl(path: Path, key: str) -> Iterator[str | Broken]:
    for line in read_lines(path, read_chunks(path), LONGEST):
        where = f"{path}:{line.number}"
        if line.content is None:
            yield Broken(f"{where} has more than {LONGEST:,} bytes: a JSONL file has one record per line; cut it")
        elif line.content.strip():
            yield _record(line.content, key, where)


def _record(line: bytes, key: str, where: str) -> str | Broken:
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Broken(f"{where} is not UTF-8 (at byte {error.start} of the line): convert it, with iconv say")
    except (ValueError, RecursionError):
        return Broken(f"{where} is not JSON: a JSONL file has one record per line; mend it")
    if not isinstance(record, dict):
        return Broken(f'{where} is not a record such as {{"{key}": "…"}}: mend it')
    if key not in record:
        return Broken(f"{where} has no key {key!r}, only {listing(record)}: set data.text_key")
    return tables.checked(record[key], key, where)


READERS = {
    "text": Reader((".txt", ".text", ".raw", ".tokens"), _from_text),
    "jsonl": Reader((".jsonl", ".ndjson"), _from_records(_read_jsonl)),
    "parquet": Reader((".parquet", ".pq"), _from_records(tables.read_parquet)),
    "arrow": Reader((".arrow",), _from_records(tables.read_arrow)),
}
FORMATS = ("auto", *READERS)  # the values of data.format
KINDS = {suffix: kind for kind, reader in READERS.items() for suffix in reader.suffixes}
