"""Batches without end, in a seeded order, that can go on exactly where a saved state stood."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from zoo.data.mixture import Turns
from zoo.data.order import Permutation
from zoo.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from zoo.data.opening import Part
    from zoo.data.token_interface import Tokenizer

PREFETCH = 2  # batches made while the model works
LISTED = 1 << 16  # blocks whose order is a list: it takes about 120 bytes per block


class Blocks(Protocol):
    """What a reader needs of the data."""

    length: int
    batch_size: int
    fingerprint: str
    tokenizer: Tokenizer
    parts: tuple[Part, ...]  # the corpora of a mixture, or the only one
    num_blocks: int
    blocks_of: list[int]  # of each part

    def blocks(self, numbers: Sequence[int]) -> Tensor: ...


class BatchReader(Iterator["Tensor"]):
    """Batches (batch_size, length + 1) without end, that can go on exactly where a saved state stood.

    Each epoch is a pipeline of its own, shuffled anew; blocks that do not fill a batch on every rank are left out.
    (fairseq2's own `repeat` loses its place when it is saved at the end of an epoch.)

    Up to LISTED blocks, fairseq2 shuffles a list of their numbers: the order of all earlier versions, which a saved state
    without an `order` has at any size. For more blocks, and for mixtures, the order is computed: it takes no memory. A
    mixture has one epoch without end.
    """

    def __init__(self, data: Blocks, seed: int, rank: int = 0, world: int = 1) -> None:
        self.data = data
        self.epoch = 0
        self._rank, self._world = rank, world
        self._seed = seed
        self._start = 0  # the place in the epoch's order where this reader began
        self._batches_read: int | None = 0  # since then, on this rank; None: a state of an earlier version did not say
        self.order = "listed" if data.num_blocks <= LISTED and len(data.parts) == 1 else "computed"
        self._open()

    def _open(self) -> None:
        together = self._world * self.data.batch_size  # blocks in one step of all ranks
        self._pipeline = (
            self._numbers(together)
            .shard(self._rank, self._world)
            .bucket(self.data.batch_size)
            .map(functools.partial(_batch, self.data, self._order()))  # without self, which holds the pipeline
            .prefetch(PREFETCH)
            .and_return()
        )
        self._batches = iter(self._pipeline)

    def _numbers(self, together: int) -> Any:
        """A pipeline of the numbers of blocks or, where the order is computed, of places in it."""
        from zoo.system import fairseq2_setup  # noqa: F401  # before anything of fairseq2

        # isort: split
        from fairseq2.data.data_pipeline import DataPipeline, read_sequence

        num_blocks = self.data.num_blocks
        count = max(num_blocks, together)
        left = (count - self._start) // together * together
        if self.order == "computed":
            places = DataPipeline.count(self._start)
            return places.take(left) if len(self.data.parts) == 1 else places
        digest = hashlib.sha256(f"{self._seed} {self.epoch}".encode()).digest()
        numbers = read_sequence([i % num_blocks for i in range(count)])
        shuffled = numbers.shuffle(0, seed=int.from_bytes(digest[:7], "big"))
        return (shuffled.skip(self._start) if self._start else shuffled).take(left)

    def _order(self) -> Order | None:
        data = self.data
        if self.order == "listed":
            return None
        if len(data.parts) > 1:
            return Turns([part.share for part in data.parts], data.blocks_of, self._seed)
        return Permutation(max(data.num_blocks, self._world * data.batch_size), self._seed, "epoch", self.epoch)

    def __next__(self) -> Tensor:
        while (batch := next(self._batches, None)) is None:
            self.epoch += 1
            self._start = self._batches_read = 0
            self._open()
        if self._batches_read is not None:
            self._batches_read += 1
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors."""
        state = {"epoch": self.epoch, "of": self._of(), "pipeline": self._pipeline.state_dict(strict=True)}
        state |= {} if self.order == "listed" else {"order": self.order}
        return state | {"start": self._start, "batches": self._batches_read}

    def load_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Go on where the readers of all ranks stood, in the order of ranks; their number may have been another."""
        if len(states) == self._world:
            self.load_state_dict(states[self._rank])
            return
        first = states[0]
        self._check(first, but=("rank", "world size"))
        if first.get("batches") is None:
            raise DataError(
                f"an earlier version began this epoch, with {len(states)} processes, and did not write down how far it came:"
                " go on with as many until the next checkpoint"
            )
        self.epoch, self.order = first["epoch"], first.get("order", "listed")
        self._start = first["start"] + first["batches"] * len(states) * self.data.batch_size
        self._batches_read = 0
        self._open()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._check(state)
        self.epoch, self.order = state["epoch"], state.get("order", "listed")
        self._start, self._batches_read = state.get("start", 0), state.get("batches")
        self._open()
        self._pipeline.load_state_dict(state["pipeline"])

    def _check(self, state: Mapping[str, Any], but: Sequence[str] = ()) -> None:
        """Refuse the state of a reader of other data."""
        saved, own = dict(state["of"]), {name: value for name, value in self._of().items() if name not in but}
        if differ := [f"{name} {saved.get(name)} (now {own[name]})" for name in own if saved.get(name) != own[name]]:
            raise DataError(f"training cannot go on with other data: it was saved with {', '.join(differ)}")

    def _of(self) -> dict[str, int | str]:
        data = self.data
        return {
            "corpus": data.fingerprint,
            "vocab_size": data.tokenizer.vocab_size,
            "length": data.length,
            "batch_size": data.batch_size,
            "seed": self._seed,
            "rank": self._rank,
            "world size": self._world,
        }


Order = Callable[["np.ndarray"], "np.ndarray"]  # places → the numbers of blocks


def _batch(data: Blocks, order: Order | None, places: list[int]) -> Tensor:
    """The blocks at places of an order; without one, places are the numbers of blocks."""
    import numpy as np

    return data.blocks(places if order is None else (order(np.array(places)) % data.num_blocks).tolist())
