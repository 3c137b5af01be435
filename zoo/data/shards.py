"""Rows of tokens on disk: raw little-endian files of bounded size, written in turn and read as one row.

A row has `eos` before, between and after its documents.
"""

from __future__ import annotations

import bisect
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple

from zoo.errors import DataError

if TYPE_CHECKING:
    import numpy as np

BYTES = 256 << 20  # of a shard, at most


class Shard(NamedTuple):
    """A file of tokens."""

    name: str
    tokens: int
    sha256: str
    mtime: int  # nanoseconds


def token_type(vocab_size: int) -> np.dtype:
    """How a token is written."""
    import numpy as np

    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


class RowWriter:
    """Appends to the row of a split, shard after shard; goes on where `length` tokens stand."""

    def __init__(self, folder: Path, split: str, kind: np.dtype, length: int = 0) -> None:
        self.folder, self.split, self.kind, self.length = folder, split, kind, length
        self._room = BYTES // kind.itemsize  # tokens of a full shard
        for number in range(-(-length // self._room), 1 + len(list(folder.glob(f"{split}-*.bin")))):
            (folder / self.name(number)).unlink(missing_ok=True)
        self._file: IO[bytes] | None = None
        if length % self._room:
            self._file = (folder / self.name(length // self._room)).open("r+b")
            self._file.truncate(length % self._room * kind.itemsize)
            self._file.seek(0, os.SEEK_END)

    def name(self, number: int) -> str:
        return f"{self.split}-{number:05d}.bin"

    def append(self, tokens: np.ndarray) -> None:
        tokens = tokens.astype(self.kind, copy=False)
        while len(tokens):
            number, filled = divmod(self.length, self._room)
            if self._file is None:
                self._file = (self.folder / self.name(number)).open("wb")
            part = tokens[: self._room - filled]
            self._file.write(part.tobytes())
            self.length += len(part)
            tokens = tokens[len(part) :]
            if self.length % self._room == 0:
                self._close()

    def flush(self) -> None:
        """Bring everything to the disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def _close(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._close()
        elif self._file is not None:
            with contextlib.suppress(OSError):  # what is buffered may not fit on the disk
                self._file.close()


class TokenRow:
    """The row of a split, mapped into memory: reading a part touches no other."""

    def __init__(self, folder: Path, shards: Sequence[Shard], kind: np.dtype, vocab_size: int) -> None:
        import numpy as np

        self.folder, self._vocab_size = folder, vocab_size
        self._maps = [np.memmap(folder / s.name, kind, "r", shape=(s.tokens,)) for s in shards if s.tokens]
        self._starts = [0]
        for shard in self._maps:
            self._starts.append(self._starts[-1] + len(shard))

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, start: int, stop: int) -> np.ndarray:
        """The tokens from `start` to before `stop`, or to the end of the row, as 64-bit integers."""
        import numpy as np

        parts, stop = [], min(stop, len(self))
        first = bisect.bisect_right(self._starts, start) - 1
        while start < stop:
            part = self._maps[first][start - self._starts[first] : stop - self._starts[first]]
            parts.append(part)
            start += len(part)
            first += 1
        row = np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)
        if len(row) and int(row.max()) >= self._vocab_size:
            raise DataError(
                f"{self.folder} is damaged: a token is not of its tokenizer: remove it, or see zoo-data verify"
            )
        return row
