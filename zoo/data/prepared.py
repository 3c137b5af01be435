"""A prepared corpus, opened: its manifest, its tokenizer, and the row of each split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zoo.data.corpus import SPLITS
from zoo.data.manifest import Split, damaged_shards, own_tokenizer, read_manifest
from zoo.data.order import Permutation
from zoo.data.shards import TokenRow, token_type
from zoo.errors import DataError

if TYPE_CHECKING:
    import numpy as np

CHUNK = 8192  # tokens: where a split is too long to be evaluated whole, so many are taken together


class Prepared:
    """A corpus as tokens. Opening it reads its manifest; of the tokens nothing is read before it is asked for."""

    def __init__(self, folder: Path, name: str, pad: int = 1) -> None:
        self.folder, self.name = folder, name
        self.manifest = read_manifest(folder)
        self.fingerprint = self.manifest.fingerprint
        if damaged := damaged_shards(folder, self.manifest):
            raise DataError(
                f"{folder} is damaged: {', '.join(damaged)} is not as it was written; prepare the corpus again"
            )
        self.tokenizer = own_tokenizer(folder, self.manifest, pad)
        kind = token_type(self.manifest.vocab_size)
        self._rows = {
            split: TokenRow(folder, self.manifest.splits[split].shards, kind, self.manifest.vocab_size)
            for split in SPLITS
        }

    def split(self, split: str) -> Split:
        """What a split holds; a sentence if there is none of that name, or nothing in it."""
        if split not in self.manifest.splits:
            raise DataError(f"there is no split {split!r}, only {', '.join(SPLITS)}")
        if self.manifest.splits[split].tokens < 1:
            raise DataError(f"{self.name} has no {split} split")
        return self.manifest.splits[split]

    def row(self, split: str) -> TokenRow:
        """The tokens of a split."""
        self.split(split)
        return self._rows[split]

    def evaluated(self, split: str, most: int, length: int) -> list[tuple[int, int]]:
        """The stretches of a split that are evaluated, each from a token to the last that is predicted from there.

        All of it, if it has at most so many tokens; else chunks that a fixed seed spreads over it: the same tokens for
        every run whose `length` is at most a chunk's.
        """
        import numpy as np

        tokens = self.split(split).tokens
        if tokens <= most:
            return [(0, tokens)]
        chunk = max(CHUNK, 1 << (length - 1).bit_length())
        count = min(max(1, most // chunk), tokens // chunk)
        if count < 1:
            return [(0, min(most, tokens))]
        numbers = np.sort(Permutation(tokens // chunk, "evaluated", split)(np.arange(count)))
        return [(int(number) * chunk, (int(number) + 1) * chunk) for number in numbers]

    def bytes(self, split: str, stretches: list[tuple[int, int]]) -> float:
        """The bytes of text in stretches of a split, by what their tokens write."""
        whole = self.split(split)
        if stretches == [(0, whole.tokens)]:
            return whole.bytes
        widths = _widths(self.tokenizer.pieces)
        row = self.row(split)
        written = sum(int(widths[row.read(start + 1, stop + 1)].sum()) for start, stop in stretches)
        return written * whole.bytes / whole.piece_bytes


def _widths(pieces: list[bytes]) -> np.ndarray:
    import numpy as np

    return np.array([len(piece) for piece in pieces], np.int64)
