"""A script for torchrun: trainings in which every rank holds a part of the model; writes what came of them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers

# isort: split

import dataclasses
import json
import os
import signal
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from helpers import tiny_training

from zoo.runs import sharded_checkpoint

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PARTS = 4  # batches in a step, of all ranks together


def config(base: Path, before: Callable[[int], None] = tiny_training.nothing, **options: Any) -> tiny_training.Config:
    usual = {"parallel": "fsdp", "steps": 20, "validate_every": 10, "log_every": 1, "accumulate": PARTS // SIZE}
    return tiny_training.config(base, before=before, **{**usual, "save_every": 5, **options})


def train(base: Path, name: str, before: Callable[[int], None] = tiny_training.nothing, **options: Any) -> Any:
    """The outcome of a run on this rank: its summary, or the sentence with which it ended."""
    model = options.pop("model", tiny_training.without_dropout)
    made = dataclasses.replace(config(base, before, **options), model=model)
    try:
        summary = tiny_training.go(made, base / name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return {name: getattr(summary, name) for name in ("status", "steps", "skipped_steps", "blew_up", "valid_loss")}


def stopping(step: int) -> Callable[[int], None]:
    """The second rank gets a signal before this step."""

    def before(number: int) -> None:
        if RANK == 1 and number == (step - 1) * PARTS // SIZE + 1:
            os.kill(os.getpid(), signal.SIGTERM)

    return before


def spoilt(base: Path, where: str) -> Any:
    """The last rank's passes give NaN, in some steps."""
    models: list[tiny_training.Model] = []

    class Watched(tiny_training.Model):
        def __deepcopy__(self, memo: dict[int, Any]) -> Any:  # the copy is what is trained
            copy = Watched.__new__(Watched)
            memo[id(self)] = copy
            copy.__dict__.update({name: _copied(value, memo) for name, value in self.__dict__.items()})
            models.append(copy)
            return copy

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            models.append(self)

    def before(number: int) -> None:
        bad = RANK == SIZE - 1 and 3 <= number <= 4
        for model in models:
            model.layers[1].spoilt = where if bad else ""

    return train(base, f"spoilt {where}", before, model=Watched, max_skipped=2, steps=6, accumulate=1)


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    import copy

    return copy.deepcopy(value, memo)


def killed(base: Path) -> Any:
    """The last rank cannot write its part of the second checkpoint."""
    whole = sharded_checkpoint.write_own

    def broken(temporary: Path, tensors: Any, rank: int) -> Any:
        files = whole(temporary, tensors, rank)
        if temporary.name.startswith("step_00000010") and RANK == SIZE - 1:
            raise OSError(28, os.strerror(28))
        return files

    sharded_checkpoint.write_own = broken
    try:
        return train(base, "full")
    finally:
        sharded_checkpoint.write_own = whole


def main(base: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found: dict[str, Any] = {
        "whole": train(base, "whole", model=tiny_training.Model),
        "interrupted": train(base, "broken", stopping(8), model=tiny_training.Model),
        "resumed": train(base, "broken", model=tiny_training.Model),
        "plain": train(base, "plain"),
        "muon": train(base, "muon", optimizer="muon"),
        "ddp": train(base, "ddp", parallel="ddp"),
        "elsewhere": train(base, "elsewhere", stopping(12), accumulate=PARTS),
        "spoilt": [spoilt(base, where) for where in ("forward", "backward")],
        "full": killed(base),
    }
    everyone: list[Any] = [None] * SIZE
    dist.all_gather_object(everyone, found)
    if RANK == 0:
        (base / "found.json").write_text(json.dumps(everyone))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
