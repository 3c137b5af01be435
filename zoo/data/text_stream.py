"""Bytes in chunks to text in parts, or to lines; what is no text is refused at the byte where that shows."""

from __future__ import annotations

import codecs
import io
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from zoo.data.documents import BrokenFile

BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    number: int  # from 1
    content: bytes | None  # without the newline; None if it is longer than the limit


def read_parts(path: Path, chunks: Iterable[bytes]) -> Iterator[str]:
    """UTF-8 text without a byte-order mark, with \\n for every kind of newline."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    offset, rest = _without_mark(chunks)  # the offset of what the decoder has not taken yet
    for chunk in rest:
        text, offset = _decoded(path, decoder, chunk, offset, final=False)
        if part := newlines.decode(text):
            yield part
    text, _ = _decoded(path, decoder, b"", offset, final=True)
    if part := newlines.decode(text, final=True):
        yield part


def _decoded(path: Path, decoder: codecs.IncrementalDecoder, chunk: bytes, offset: int, final: bool) -> tuple[str, int]:
    """The text of a chunk, and the offset of the first byte that is not in it."""
    held = len(decoder.getstate()[0])  # the beginning of a character whose end is in this chunk
    if (nul := chunk.find(b"\0")) >= 0:
        raise BrokenFile(
            f"{path} is not text (NUL byte at offset {offset + held + nul}): give UTF-8 text, JSONL or Parquet"
        )
    try:
        text = decoder.decode(chunk, final)
    except UnicodeDecodeError as error:
        raise BrokenFile(
            f"{path} is not UTF-8 (at byte offset {offset + error.start}): convert it, with iconv say"
        ) from error
    return text, offset + held + len(chunk) - len(decoder.getstate()[0])


def _without_mark(chunks: Iterable[bytes]) -> tuple[int, Iterator[bytes]]:
    """The length of the byte-order mark, if there is one, and the chunks after it."""
    waiting = iter(chunks)
    first = b""
    while len(first) < len(BOM) and (chunk := next(waiting, None)):
        first += chunk
    rest = first.removeprefix(BOM)
    return len(first) - len(rest), itertools.chain([rest], waiting)


def read_lines(path: Path, chunks: Iterable[bytes], longest: int) -> Iterator[Line]:
    """Lines of bytes; one that is longer than the limit is reported as soon as it is, and then read over."""
    number, length = 1, 0
    held: list[bytes] = []
    for chunk in _without_mark(chunks)[1]:
        if b"\0" in chunk:
            raise BrokenFile(f"{path}:{number} or a line soon after it has a NUL byte, as no text does: give JSONL")
        start = 0
        while start <= len(chunk):
            newline = chunk.find(b"\n", start)
            end = len(chunk) if newline < 0 else newline
            fits = length <= longest
            length += end - start
            if length <= longest:
                held.append(chunk[start:end])
            elif fits:
                held = []
                yield Line(number, None)
            if newline < 0:
                break
            if length <= longest:
                yield Line(number, b"".join(held))
            number, held, length, start = number + 1, [], 0, newline + 1
    if 0 < length <= longest:
        yield Line(number, b"".join(held))
