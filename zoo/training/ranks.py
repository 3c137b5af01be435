"""The processes of one run: a single one, or several under torchrun or srun."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from zoo.errors import ConfigError, RankError, ZooError
from zoo.training.places import place

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from zoo.training.rank_watch import Watch

T = TypeVar("T")
TOGETHER = 600.0  # seconds within which all ranks of a run must have started
_GROUPS = itertools.count()  # a process that trains several runs has a group for each


@dataclass(frozen=True)
class Ranks:
    """This process's place among those of the run. Alone, every exchange is the identity."""

    rank: int
    size: int
    device: torch.device
    watch: Watch | None = None  # its eye on the others
    _replicas: list[DistributedDataParallel] = field(default_factory=list)

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

        total = torch.tensor(values, dtype=torch.float64, device="cpu")
        with self.exchange():
            dist.all_reduce(total)
        return total.tolist()

    def gather(self, value: T) -> list[T]:
        """What every rank holds, in the order of ranks."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        with self.exchange():
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
                is_sentence = isinstance(error, ZooError | OSError)
                failure = error
                answer[1] = (
                    error if is_sentence else ZooError(f"the first process failed: {type(error).__name__}: {error}")
                )
        with self.exchange():
            dist.broadcast_object_list(answer)
        if failure or answer[1]:
            raise failure or answer[1]
        result: T = answer[0]
        return result

    def exchange(self, computes: bool = False) -> contextlib.AbstractContextManager[None]:
        """A stretch in which ranks wait for each other, and may compute: one that does not come becomes a sentence."""
        return self.watch.exchange(computes) if self.watch else contextlib.nullcontext()

    def at(self, place: str) -> None:
        """Note what this rank is doing, for the others to tell should it not come back."""
        if self.watch:
            self.watch.place = place

    def averaging(self, model: torch.nn.Module) -> torch.nn.Module:
        """The model with its gradients averaged over ranks (DDP). `join` takes it apart again."""
        from torch.nn.parallel import DistributedDataParallel

        # A method may leave a parameter of some layer unused. The option also keeps the buckets, and with them the order of
        # summation, as they are: else they change after the first step, and a resumed run would differ in the last bits.
        devices = [self.device] if self.device.type == "cuda" else None
        with self.exchange(computes=True):
            replica = DistributedDataParallel(
                model, device_ids=devices, find_unused_parameters=True, broadcast_buffers=False
            )
        self._replicas.append(replica)
        return replica

    def _release(self) -> None:
        """Let go of all that holds the process group in C++, also where a traceback or a caller still holds the replica.

        Whoever holds the group last takes it down. Python does so without its global lock; DDP's reducer holds that lock,
        and waits for ever for a thread of gloo that wants it.
        """
        for replica in self._replicas:
            replica.reducer = replica.logger = replica.process_group = None  # type: ignore[assignment]
        self._replicas.clear()


def alone(device: str = "auto") -> Ranks:
    """A process that has nothing to do with others."""
    return Ranks(0, 1, _device(device))


def _device(name: str) -> torch.device:
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError('train.device = "cuda", but torch finds no CUDA device here')
        name = f"cuda:{_own_cuda(place().local_rank, torch.cuda.device_count())}"
        torch.cuda.set_device(name)
    return torch.device(name)


def _own_cuda(local_rank: int, visible: int) -> int:
    """The CUDA device of a rank; Slurm may let each task see no more than its own."""
    if visible == 1 and "SLURM_STEP_ID" in os.environ:
        return 0
    if local_rank >= visible:
        raise ConfigError(
            f"this is process {local_rank + 1} on this machine, and torch finds {visible} CUDA devices here: start no more"
            " processes than that on a machine"
        )
    return local_rank


@contextlib.contextmanager
def join(device: str = "auto", timeout: float = TOGETHER) -> Iterator[Ranks]:
    """Take this process's place, which the environment says. No rank waits longer than `timeout` seconds."""
    import torch.distributed as dist

    rank, size, _, _ = place()
    own = _device(device)
    if size == 1 or dist.is_initialized():  # whoever made the group ends it
        ranks = Ranks(rank, size, own)
        try:
            yield ranks
        finally:
            ranks._release()
        return

    with _group(own, rank, size, timeout) as watch:
        ranks = Ranks(rank, size, own, watch)
        try:
            yield ranks
        finally:
            ranks._release()


@contextlib.contextmanager
def _group(device: torch.device, rank: int, size: int, timeout: float) -> Iterator[Watch]:
    """The process group of this run, and its watch."""
    import torch.distributed as dist

    from zoo.training.rank_watch import Watch

    together = datetime.timedelta(seconds=max(timeout, TOGETHER))
    store = dist.PrefixStore(f"zoo/{next(_GROUPS)}", next(dist.rendezvous("env://", timeout=together))[0])
    _wait_for_all(store, rank, size, together)
    # Tensors of the CPU (flags, sums, states) go through gloo in either case.
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        store=dist.PrefixStore("group", store),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
    )
    watch = Watch(store, rank, size, timeout)
    try:
        yield watch
    except BaseException as error:
        watch.leave(error)
        raise
    finally:
        dist.destroy_process_group()
        watch.close()


def _wait_for_all(store: dist.Store, rank: int, size: int, timeout: datetime.timedelta) -> None:
    """Ranks start at different times; the group's timeout, which may be short, is for what comes after."""
    store.set(f"here/{rank}", "")
    try:
        store.wait([f"here/{other}" for other in range(size)], timeout)
    except RuntimeError as error:
        missing = [other for other in range(size) if not store.check([f"here/{other}"])]
        which = ", ".join(map(str, missing))
        raise RankError(
            f"rank {which} has not started within {timeout.total_seconds():g} s",
            rank == min({*range(size)} - {*missing}),
        ) from error
