"""A seeded permutation of any length that keeps nothing in memory: each place is computed when it is asked for.

A Feistel network over the next power of four permutes more numbers than there are; one that lands outside is sent
through again until it lands inside, which takes less than four passes on average.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

ROUNDS = 6
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of SplitMix64, which mixes all bits of a number into each


class Permutation:
    """A permutation of the numbers below `count`, in an order that the words alone decide."""

    def __init__(self, count: int, *words: object) -> None:
        self.count = count
        self._half = max(1, (max(1, count - 1).bit_length() + 1) // 2)  # bits of one half of a number
        digest = hashlib.shake_256(" ".join(map(str, words)).encode()).digest(8 * ROUNDS)
        self._keys = [int.from_bytes(digest[8 * i : 8 * i + 8], "little") for i in range(ROUNDS)]

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """The numbers at these places, each from 0 to before `count`."""
        import numpy as np

        numbers = self._network(np.asarray(places, np.uint64))
        outside = np.flatnonzero(numbers >= self.count)
        while len(outside):
            numbers[outside] = self._network(numbers[outside])
            outside = outside[numbers[outside] >= self.count]
        return numbers.astype(np.int64)

    def _network(self, numbers: np.ndarray) -> np.ndarray:
        import numpy as np

        bits, mask = np.uint64(self._half), np.uint64((1 << self._half) - 1)
        left: Any = numbers >> bits
        right: Any = numbers & mask
        for key in self._keys:
            left, right = right, left ^ (_mixed(right ^ np.uint64(key)) & mask)
        joined: np.ndarray = (left << bits) | right
        return joined


def _mixed(numbers: np.ndarray) -> np.ndarray:
    import numpy as np

    for shift, multiplier in zip((30, 27), MULTIPLIERS, strict=True):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(multiplier)
    return numbers ^ (numbers >> np.uint64(31))
