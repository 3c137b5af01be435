"""The processes of one run: a single one, or several under torchrun."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from zoo.errors import ConfigError, ZooError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


class Ranks(NamedTuple):
    """This process's place among those of the run. Alone, every exchange is the identity."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """The element-wise sum over all ranks, the same on each."""
        if self.size == 1:
            return values
        import torch
        import torch.distributed as dist

        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def gather(self, value: T) -> list[T]:
        """What every rank holds, in the order of ranks."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def on_first(self, function: Callable[[], T]) -> T:
        """Call a function on the first rank alone; its answer, or its failure, becomes that of all."""
        if self.size == 1:
            return function()
        import torch.distributed as dist

        answer: list[Any] = [None, None]
        failure: Exception | None = None
        if self.first:
            try:
                answer[0] = function()
            except Exception as error:
                told = isinstance(error, ZooError | OSError)
                failure = error
                answer[1] = error if told else ZooError(f"the first process failed: {type(error).__name__}: {error}")
        dist.broadcast_object_list(answer)
        if failure or answer[1]:
            raise failure or answer[1]
        result: T = answer[0]
        return result


def alone(device: str = "auto") -> Ranks:
    """A process that has nothing to do with others."""
    return Ranks(0, 1, _device(device))


def _device(wanted: str) -> torch.device:
    import torch

    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError('train.device = "cuda", but torch finds no CUDA device here')
        wanted = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        torch.cuda.set_device(wanted)
    return torch.device(wanted)


@contextlib.contextmanager
def join(device: str = "auto") -> Iterator[Ranks]:
    """Take this process's place: torchrun says which through the environment."""
    import torch.distributed as dist

    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    ranks = Ranks(rank, size, _device(device))

    if size == 1 or dist.is_initialized():  # whoever made the group ends it
        yield ranks
        return

    # Tensors of the CPU (flags, sums, states) go through gloo in either case.
    dist.init_process_group("cpu:gloo,cuda:nccl" if ranks.device.type == "cuda" else "gloo")
    try:
        yield ranks
    finally:
        dist.destroy_process_group()
