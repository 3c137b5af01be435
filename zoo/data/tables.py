"""Texts from columns: Parquet, and the Arrow files that Hugging Face's `datasets` saves; a batch at a time in memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.data.documents import Broken, BrokenFile, listing
from zoo.data.packed_files import HARMLESS, MOST_UNPACKED, open_unpacked
from zoo.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

RECORDS = 256  # at once
BUFFER = 1 << 20  # bytes of a column that are read ahead
ARROW = b"ARROW1"  # how a file of random access begins; a stream has no such mark

Columns = Callable[[Any, Path, str], Iterator["pa.Array"]]  # open file, its path, the column → its values in batches


def read_parquet(path: Path, key: str) -> Iterator[str | Broken]:
    """The texts of a column."""
    return _read(path, key, "Parquet", _parquet_columns)


def read_arrow(path: Path, key: str) -> Iterator[str | Broken]:
    """The texts of a column; a stream, as `datasets` saves it, or a file of random access."""
    return _read(path, key, "Arrow", _arrow_columns)


def checked(value: object, key: str, where: str) -> str | Broken:
    """A text, or what is wrong with it."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return Broken(f"{where}: {key!r} holds a {type(value).__name__}, not text: set data.text_key")
    if "\0" in value:
        return Broken(f"{where}: {key!r} holds a NUL character, which no text has")
    try:
        value.encode()
    except UnicodeEncodeError:
        return Broken(f"{where}: {key!r} holds half a surrogate pair, which is not a character")
    return value


def _read(path: Path, key: str, format: str, columns: Columns) -> Iterator[str | Broken]:
    import pyarrow as pa

    try:
        with open_unpacked(path) as file:
            for number, scalar in enumerate((scalar for column in columns(file, path, key) for scalar in column), 1):
                yield _value(scalar, key, f"{path}, record {number}")
    except DataError:
        raise
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0].rstrip(".")
        raise BrokenFile(f"{path} cannot be read as {format}: {reason}") from error


def _value(scalar: pa.Scalar, key: str, where: str) -> str | Broken:
    try:
        return checked(scalar.as_py(), key, where)
    except UnicodeDecodeError:
        return Broken(f"{where}: {key!r} is not UTF-8")
    except (ValueError, OverflowError) as error:  # a time, say, that Python has no notion of
        return Broken(f"{where}: {key!r} holds what is not text ({error}): set data.text_key")


def _parquet_columns(file: Any, path: Path, key: str) -> Iterator[pa.Array]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = pq.ParquetFile(file)
    _check_column(path, key, about.schema_arrow.names)
    _check_unpacked(path, key, about.metadata)
    # Values that repeat stay references into their dictionary: a small file with a large one does not unfold in memory.
    # Where a file has none, one would be made of all values.
    has_dictionary = any(chunk.has_dictionary_page for chunk in _chunks(about.metadata, key))
    as_dictionary = [key] if has_dictionary and pa.types.is_string(about.schema_arrow.field(key).type) else []
    with pq.ParquetFile(
        file, metadata=about.metadata, read_dictionary=as_dictionary, buffer_size=BUFFER, pre_buffer=False
    ) as table:
        for batch in table.iter_batches(batch_size=RECORDS, columns=[key]):
            yield batch.column(0)


def _check_unpacked(path: Path, key: str, metadata: Any) -> None:
    for chunk in _chunks(metadata, key):
        if chunk.total_uncompressed_size > max(HARMLESS, MOST_UNPACKED * chunk.total_compressed_size):
            raise BrokenFile(f"{path}: {key!r} unpacks to more than {MOST_UNPACKED} times its size, as no text does")


def _chunks(metadata: Any, key: str) -> Iterator[Any]:
    """What a file says of each part of a column."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema.split(".")[0] == key:
                yield column


def _arrow_columns(file: Any, path: Path, key: str) -> Iterator[pa.Array]:
    import pyarrow as pa

    if os.fstat(file.fileno()).st_size == 0:
        raise BrokenFile(f"{path} cannot be read as Arrow: it is empty")
    # Mapped, a file that claims to hold more than it does has nothing to be read into.
    content = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if content[: len(ARROW)].to_pybytes() == ARROW:
        table = pa.ipc.open_file(content)
        _check_column(path, key, table.schema.names)
        batches = map(table.get_batch, range(table.num_record_batches))
    else:
        batches = pa.ipc.open_stream(content)
        _check_column(path, key, batches.schema.names)
    for batch in batches:
        yield batch.column(key)


def _check_column(path: Path, key: str, names: list[str]) -> None:
    if key not in names:
        raise DataError(f"{path} has no column {key!r}, only {listing(names)}: set data.text_key")
