"""Blocks of several corpora in turn, so that their tokens follow the weights at every moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zoo.data.order import Permutation
from zoo.errors import DataError

if TYPE_CHECKING:
    import numpy as np

PERIOD = 10_000  # blocks after which the turns repeat: a weight is kept to 0.01 %


def shares(weights: Mapping[str, float]) -> dict[str, float]:
    """The weights as parts of one."""
    if not weights:
        raise DataError("data.corpus is an empty mixture: name a corpus")
    if wrong := [name for name, weight in weights.items() if not 0 < weight < float("inf")]:
        raise DataError(f"the weight of {wrong[0]!r} in data.corpus must be more than 0: it is {weights[wrong[0]]!r}")
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


class Turns:
    """Which block of which corpus comes at a place of an endless order: computed, not kept.

    In a period each corpus has its share of the places, spread evenly; the blocks of a corpus come in an order of its own,
    another one each time it is through.
    """

    def __init__(self, weights: Sequence[float], num_blocks: Sequence[int], seed: int) -> None:
        import numpy as np

        self._num_blocks, self._seed = num_blocks, seed
        self._offsets = np.concatenate([[0], np.cumsum(num_blocks)])
        self._which = np.zeros(PERIOD, np.int64)  # the corpus at each place of a period
        self._nth = np.zeros(PERIOD, np.int64)  # how many blocks of it were before
        drawn = np.zeros(len(weights))
        for place in range(PERIOD):
            which = int(np.argmax(np.asarray(weights) * (place + 1) - drawn))
            self._which[place], self._nth[place] = which, drawn[which]
            drawn[which] += 1
        self._drawn = drawn.astype(np.int64)
        if not self._drawn.all():
            raise DataError(f"a weight in data.corpus is less than 1 of {PERIOD:,}: leave that corpus out")

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """The numbers of the blocks at these places, counted through all corpora."""
        import numpy as np

        periods, within = np.divmod(np.asarray(places, np.int64), PERIOD)
        which = self._which[within]
        serial = periods * self._drawn[which] + self._nth[within]
        numbers = np.empty(len(serial), np.int64)
        for corpus in np.unique(which):
            count = self._num_blocks[corpus]
            epochs = serial // count
            for epoch in np.unique(epochs[which == corpus]):
                here = (which == corpus) & (epochs == epoch)
                order = Permutation(count, self._seed, "corpus", corpus, "epoch", epoch)
                numbers[here] = self._offsets[corpus] + order(serial[here] % count)
        return numbers
