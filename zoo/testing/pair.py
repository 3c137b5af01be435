"""Two ranks for a moment: copies of this process, which exchange through gloo and end."""

from __future__ import annotations

import contextlib
import datetime
import os
import pickle
import select
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from zoo.training.ranks import Ranks

T = TypeVar("T")
SIZE = 2
SECONDS = 120.0  # within which two ranks must have ended; on an idle machine they take less than one


class Lost(RuntimeError):
    """Ranks that did not end, or ended without an answer."""


def possible() -> bool:
    """Whether this process can be copied: not once it has used a GPU, or is itself one of several ranks."""
    import torch.distributed as dist

    return hasattr(os, "fork") and not torch.cuda.is_initialized() and not dist.is_initialized()


def on_two_ranks(function: Callable[[Ranks], T], seconds: float = SECONDS) -> T:
    """What the first of two ranks answers, each of which calls the function."""
    _imports()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of a fork beside threads, none of which is needed in the copy
        pipe, mouth = os.pipe()
        ranks = [_copied(function, rank, Path(folder), mouth) for rank in range(SIZE)]
        os.close(mouth)
        try:
            answer = _read(pipe, time.monotonic() + seconds)
        finally:
            os.close(pipe)
            _end(ranks)
    if not answer:
        raise Lost(f"two ranks did not answer within {seconds:g} s, or died")
    failure, result = pickle.loads(answer)  # of our own copy
    if failure:
        raise RuntimeError(failure)
    return result


def _imports() -> None:
    """Import here, once, what every copy needs."""
    import torch._dynamo  # DDP and FSDP ask it whether it is at work
    import torch.distributed  # noqa: F401

    import zoo.training.ranks
    import zoo.training.sharded  # noqa: F401


def _copied(function: Callable[[Ranks], Any], rank: int, folder: Path, mouth: int) -> int:
    """Start a rank; its process's number."""
    child = os.fork()
    if child:
        return child
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)  # gloo and torch speak of every connection
        for stream in (1, 2):
            os.dup2(quiet, stream)
        answer = _as_rank(function, rank, folder)
        if rank == 0:
            with os.fdopen(mouth, "wb") as file:
                file.write(answer)
    finally:
        os._exit(0)  # nothing of what the copied process would do at its end


def _as_rank(function: Callable[[Ranks], Any], rank: int, folder: Path) -> bytes:
    """The pickled failure and answer of a rank."""
    import torch.distributed as dist

    from zoo.training.ranks import Ranks

    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(str(folder / "store"), SIZE),
            rank=rank,
            world_size=SIZE,
            timeout=datetime.timedelta(seconds=SECONDS / 2),
        )
        answer = "", function(Ranks(rank, SIZE, torch.device("cpu")))
        dist.barrier()  # none leaves while the other still talks to it
    except Exception as error:
        return pickle.dumps((f"{type(error).__name__}: {error}", None))
    return pickle.dumps(answer)


def _read(pipe: int, until: float) -> bytes:
    """All that comes out of a pipe until it is closed, or time is up."""
    parts: list[bytes] = []
    while select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
        if not (part := os.read(pipe, 1 << 16)):
            return b"".join(parts)
        parts.append(part)
    return b""


def _end(ranks: list[int]) -> None:
    """End the copies that are still there, and let the system forget them."""
    for rank in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank, signal.SIGKILL)
        os.waitpid(rank, 0)
