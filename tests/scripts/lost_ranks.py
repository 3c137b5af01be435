"""A script: trainings on several ranks that lose one of them, or torchrun; writes down what became of every rank.

A fork plays torchrun, and its forks are the ranks: all of them share the imports of this process.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers

# isort: split

import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # as zoo-train does

import torch
from helpers import tiny_training

# Imported before the forks, so that no rank pays for them.
import tensorboard.summary.writer.record_writer  # noqa: F401  isort: skip
import torch._dynamo
import torch.distributed
import torch.nn.parallel
import torch.utils.tensorboard.summary

from zoo.errors import RankError
from zoo.training import (
    rank_watch,  # noqa: F401
)

TIMEOUT = 2.0  # seconds, of the ranks
PATIENCE = 150.0  # seconds until a rank that has not ended is said to hang
Act = Callable[[int], None]  # what a rank does before a batch


def at(batch: int, act: Callable[[], Any]) -> Act:
    return lambda number: act() if number == batch else None


def me(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def torchrun_dies() -> None:
    os.kill(os.getppid(), signal.SIGKILL)


def slowly(number: int) -> None:
    time.sleep(0.05)


def raising() -> None:
    raise ValueError("of its own")


def broken_attention(number: int) -> None:
    """An error of a method, in the middle of a step, on every rank: tracebacks hold the replica."""
    if number == 2:
        tiny_training.Layer.forward = lambda self, x: x @ torch.zeros(3)  # type: ignore[method-assign]


# name → what each rank does before a batch, and other settings
MISHAPS: dict[str, tuple[list[Act], dict[str, Any]]] = {
    "killed": ([tiny_training.nothing, at(8, me(signal.SIGKILL))], {}),
    "first killed": ([at(8, me(signal.SIGKILL)), tiny_training.nothing], {}),
    "stopped": ([tiny_training.nothing, at(8, me(signal.SIGSTOP))], {}),
    "stuck": ([tiny_training.nothing, at(8, lambda: time.sleep(1000))], {}),
    "raised": ([tiny_training.nothing, at(8, raising)], {}),
    "all raised": ([broken_attention, broken_attention], {}),
    "three of four": ([tiny_training.nothing] * 3 + [at(8, me(signal.SIGKILL))], {}),
    "no torchrun": ([at(8, torchrun_dies), tiny_training.nothing], {"steps": 100_000, "before": slowly}),
    "told": ([tiny_training.nothing, at(8, me(signal.SIGUSR1))], {"steps": 100_000}),
}


def one_rank(base: Path, name: str, act: Act, settings: dict[str, Any]) -> None:
    """Train, and write down how it ended."""
    rank, told = int(os.environ["RANK"]), {}
    options = {"steps": 30, "rank_timeout": TIMEOUT, **settings}
    always = options.pop("before", tiny_training.nothing)

    def before(number: int) -> None:
        always(number)
        act(number)

    try:
        summary = tiny_training.go(tiny_training.config(base, before=before, **options), base / name)
        told = {"status": summary.status, "steps": summary.steps, "signal": summary.signal}
    except RankError as error:
        told = {"error": str(error), "speaks": error.speaks}
    except Exception as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    (base / f"{name} {rank}.json").write_text(json.dumps(told))


def again_and_again(base: Path, runs: int) -> None:
    """One run after the other in the same ranks: each makes its process group and takes it down."""
    for number in range(runs):
        tiny_training.go(tiny_training.config(base, steps=2), base / f"again {number}")
    (base / f"again {os.environ['RANK']}.json").write_text(json.dumps({"runs": runs}))


def fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def start(ranks: list[Callable[[], None]], port: int, keeps_store: bool) -> list[int]:
    """The processes of these ranks; whether this one keeps the store for them, as torchrun does, or the first rank."""

    def placed(rank: int) -> None:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(len(ranks))}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = str(keeps_store)
        torch.set_num_threads(1)
        ranks[rank]()

    return [fork(lambda rank=rank: placed(rank)) for rank in range(len(ranks))]  # type: ignore[misc]


def launched(base: Path, name: str, ranks: list[Callable[[], None]]) -> dict[str, Any]:
    """Start the ranks under a process of their own; what each told, and whether any had to be killed."""
    pids = base / f"{name} pids.json"

    keeps_store = name != "first killed"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def torchrun() -> None:
        children = start(ranks, port, keeps_store)
        store = (
            torch.distributed.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False) if keeps_store else 0
        )
        assert store is not None
        pids.write_text(json.dumps(children))
        for child in children:
            os.waitpid(child, 0)

    parent, until = fork(torchrun), time.monotonic() + PATIENCE
    while not pids.exists() or not pids.read_text():
        time.sleep(0.01)
    children = json.loads(pids.read_text())
    expected = [child for rank, child in enumerate(children) if name not in ("stopped", "stuck") or rank == 0]
    while any(map(runs, expected)) and time.monotonic() < until:
        time.sleep(0.05)
    hung = [children.index(child) for child in expected if runs(child)]
    for child in filter(runs, children):
        os.kill(child, signal.SIGKILL)
    os.waitpid(parent, 0)
    files = [base / f"{name} {rank}.json" for rank in range(len(ranks))]
    return {"hung": hung, "ranks": [json.loads(file.read_text()) if file.exists() else None for file in files]}


def runs(process: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main(base: Path, lives: int, sizes: list[int], names: list[str]) -> None:
    tiny_training.config(base)  # writes the tokenizer that all ranks read
    found = {}
    for name in names:
        acts, settings = MISHAPS[name]
        ranks = [lambda act=act, name=name, settings=settings: one_rank(base, name, act, settings) for act in acts]
        found[name] = launched(base, name, ranks)  # type: ignore[arg-type]
    for size in sizes:
        into = base / f"{size} ranks"
        into.mkdir()
        tiny_training.config(into)
        found[into.name] = launched(into, "again", [lambda into=into: again_and_again(into, lives)] * size)  # type: ignore[misc]
    (base / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    wanted = sys.argv[4:] or list(MISHAPS)
    main(Path(sys.argv[1]), int(sys.argv[2]), [int(size) for size in sys.argv[3].split(",") if size], wanted)
