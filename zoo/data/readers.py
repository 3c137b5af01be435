"""Documents from files: text, JSONL, Parquet.

Another format is a function and its entry in the table at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from zoo.data.documents import Document, File, digest, listing, pieces
from zoo.errors import DataError
from zoo.system.regular_files import read_regular

BOM = b"\xef\xbb\xbf"


def read_documents(files: Iterable[File], text_key: str, whole: bool) -> Iterator[Document]:
    """The documents that hold more than blanks."""
    for file in files:
        documents = READERS[file.kind].read(file, text_key, whole)
        yield from (document for document in documents if not (document.text == "" or document.text.isspace()))


Read = Callable[[File, str, bool], Iterable[Document]]  # file, key of the text, whether a text file is one document


class Reader(NamedTuple):
    """How the files of one format are recognised and read."""

    suffixes: tuple[str, ...]
    read: Read


def _from_text(file: File, text_key: str, whole: bool) -> Iterator[Document]:
    text = _newlines(_read_text(file.path))
    if whole:
        yield Document(file.name, text)
    else:
        yield from (Document(digest(piece), piece) for piece in pieces(text))


def _from_records(texts: Callable[[Path, str], Iterator[str]]) -> Read:
    """Read a format whose files hold records, each of them a document."""

    def read(file: File, text_key: str, whole: bool) -> Iterator[Document]:
        for text in map(_newlines, texts(file.path, text_key)):
            yield Document(digest(text), text)

    return read


def _read_text(path: Path) -> str:
    try:
        data = read_regular(path)
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
            raise DataError(f"{where} has no key {key!r}, only {listing(record)}: set data.text_key.")
        yield _checked(record[key], key, where)


def _read_parquet(path: Path, key: str) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if key not in names:
                raise DataError(f"{path} has no column {key!r}, only {listing(names)}: set data.text_key.")
            batches = file.iter_batches(columns=[key])
            for number, value in enumerate((v for batch in batches for v in batch.column(0).to_pylist()), 1):
                yield _checked(value, key, f"{path}, record {number}")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 in column {key!r}.") from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    except (ValueError, OverflowError) as error:  # a time, say, that Python has no notion of
        raise DataError(f"{path}: column {key!r} holds what is not text ({error}): set data.text_key.") from error


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


READERS = {
    "text": Reader((".txt", ".text", ".raw", ".tokens"), _from_text),
    "jsonl": Reader((".jsonl", ".ndjson"), _from_records(_read_jsonl)),
    "parquet": Reader((".parquet", ".pq"), _from_records(_read_parquet)),
}
FORMATS = ("auto", *READERS)  # the values of data.format
KINDS = {suffix: kind for kind, reader in READERS.items() for suffix in reader.suffixes}
