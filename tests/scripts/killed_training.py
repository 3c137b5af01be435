"""A script: one short training, killed with SIGKILL at one moment after the other until it gets through.

Every attempt is a process of its own, forked before torch has done any work, so that the imports are paid for once.
Prints what was reached: {"killed": […moments…], "whole": outcome, "broken": outcome}.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers

# isort: split

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from helpers import tiny_training

# Imported before the forks, so that no attempt pays for them.
import tensorboard.summary.writer.record_writer  # noqa: F401  isort: skip
import torch._dynamo
import torch.utils.tensorboard.summary

from zoo.runs import checkpoint, event_file, metrics, run_folder
from zoo.training import (
    step,
    validation,  # noqa: F401
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_call(owner: Any, name: str, number: int, after: bool = False) -> Callable[[], None]:
    """Die at the n-th call of a function, before or after it has done its work."""

    def patch() -> None:
        original, calls = getattr(owner, name), iter(range(1, 1000))

        def patched(*arguments: Any, **options: Any) -> Any:
            last = next(calls) == number
            if last and not after:
                die()
            answer = original(*arguments, **options)
            if last:
                die()
            return answer

        setattr(owner, name, patched)

    return patch


def half_a_line(number: int) -> Callable[[], None]:
    """Die in the middle of writing a row."""

    def patch() -> None:
        original, calls = metrics.Records._line, iter(range(1, 1000))

        def patched(self: metrics.Records, kind: str, step: int, figures: Any) -> None:
            original(self, kind, step, figures)
            if next(calls) == number:
                self._rows.write('{"kind": "trai')
                self.flush()
                die()

        metrics.Records._line = patched  # type: ignore[method-assign]

    return patch


def half_a_checkpoint(number: int) -> Callable[[], None]:
    """Die when a part of a checkpoint has reached its temporary file."""

    def patch() -> None:
        original, saves = torch.save, iter(range(1, 1000))

        def patched(state: Any, file: Any) -> None:
            if next(saves) == number:
                file.write(b"PK half of it")
                file.flush()
                die()
            original(state, file)

        torch.save = patched

    return patch


def moments() -> Iterator[tuple[str, Callable[[], None]]]:
    """Where a run is killed, one after the other; each attempt goes on from what the ones before left."""
    for number in (1, 2, 3):
        yield f"before text file {number}", at_call(run_folder, "write_atomically", number)
    yield "after the configuration", at_call(run_folder, "write_atomically", 3, after=True)
    yield "first row", half_a_line(1)
    yield "before the first checkpoint", half_a_checkpoint(1)
    yield "before the rename", at_call(os, "replace", 2)  # the first one is of metrics.jsonl
    yield "after the rename", at_call(checkpoint, "sync_folder", 1)
    yield "before anything old is dropped", at_call(checkpoint, "prune", 1)
    yield "in a step", at_call(step, "_update", 2)
    yield "in a row after a checkpoint", half_a_line(2)
    yield "in a validation", at_call(tiny_training.Model, "evaluate", 2)
    yield "in the second checkpoint", half_a_checkpoint(1)
    yield "after the second checkpoint", at_call(checkpoint, "save", 1, after=True)
    yield "in a later step", at_call(step, "_exchange", 4)
    yield "before the last checkpoint", half_a_checkpoint(2)
    yield "after the last checkpoint", at_call(checkpoint, "save", 1, after=True)
    yield "before the summary", at_call(os, "replace", 2)


def attempt(base: Path, run: Path, prepare: Callable[[], None] | None, settings: dict[str, Any]) -> bool:
    """Train in a process of its own; whether it was killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            torch.set_num_threads(1)
            made = tiny_training.config(base, **settings)
            if prepare:
                prepare()
            tiny_training.go(made, run)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit("an attempt failed: see above")
    return os.WIFSIGNALED(status)


def main(base: Path) -> None:
    settings = {"accumulate": 2, "steps": 20, "validate_every": 5, "patience": 50}
    attempt(base, base / "whole", None, settings)
    killed = [name for name, prepare in moments() if attempt(base, base / "broken", prepare, settings)]
    assert not attempt(base, base / "broken", None, settings)
    whole, broken = (tiny_training.outcome(base / name) for name in ("whole", "broken"))
    events = len(list((base / "broken").glob(event_file.PATTERN)))
    print(json.dumps({"killed": killed, "whole": whole, "broken": broken, "events": events}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
