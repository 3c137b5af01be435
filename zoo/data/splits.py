"""Which split each document of a corpus is in, decided while its text streams by.

Of a document 32 bytes are kept until all are known: half a SHA-256 of its text and of its key. Sorting takes as much
again, and what is left in the end is one byte.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from zoo.data.corpus import SHARE, SPLITS

if TYPE_CHECKING:
    import numpy as np

HALF = 16  # bytes of a SHA-256 that tell texts apart


class Digests:
    """The hashes of the documents of a corpus, in order."""

    def __init__(self) -> None:
        self._texts, self._keys = bytearray(), bytearray()

    def add(self, key: str, text: bytes) -> None:
        """Take note of a document; what holds its text is its key too, unless that is the name of a file."""
        self._texts += hashlib.sha256(text).digest()[:HALF]
        # A file's name need not be UTF-8.
        self._keys += hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()[:HALF]

    def divide(self, held_out: tuple[str, ...]) -> np.ndarray:
        """The number of each document's split, as `SPLITS` has them.

        A share of the keys is held out for each of the splits named, in the order of their hashes; the rest is train.
        Equal texts go with the first of them: nothing of valid or test is in train.
        """
        import numpy as np

        texts, keys = (np.frombuffer(digests, ">u8").reshape(-1, 2) for digests in (self._texts, self._keys))
        splits = np.full(len(texts), SPLITS.index("train"), np.uint8)
        if not len(texts):
            return splits
        order, numbers = _numbered(texts)
        first = np.empty(int(numbers[-1]) + 1, np.int64)
        first[numbers[::-1]] = order[::-1]  # the sort is stable: the first of equal texts is written last
        owners = np.empty(len(texts), np.int64)
        owners[order] = first[numbers]
        del order, numbers, first
        order, ranks = _numbered(keys[owners])
        count = int(ranks[-1]) + 1
        size = max(1, round(SHARE * count))
        for i, split in enumerate(held_out):
            if count > i + 1:  # something must be left to train on
                splits[order[(ranks >= i * size) & (ranks < (i + 1) * size)]] = SPLITS.index(split)
        return splits


def _numbered(digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order that sorts digests, and for each in that order how many smaller ones there are."""
    import numpy as np

    order = np.lexsort((digests[:, 1], digests[:, 0]))
    numbers = np.zeros(len(order), np.int64)
    ordered = digests[order]
    np.cumsum((ordered[1:] != ordered[:-1]).any(axis=1), out=numbers[1:])
    return order, numbers
