"""A script for torchrun: trainings on two ranks with mishaps on the second; writes what came of them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers

# isort: split

import dataclasses
import errno
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from helpers import tiny_training

from zoo.runs.metrics import Records

ROW = Records.row
RANK = int(os.environ["RANK"])
SETTINGS = {"steps": 9, "validate_every": 4}
OTHERWISE = {"optimizer": "muon", "schedule": "wsd_s", "budgets": (1.0, 3.0)}  # 6 is in the second period


def at(batch: int, act: Callable[[], None]) -> Callable[[int], None]:
    """Act before a batch, on the second rank alone."""

    def before(number: int) -> None:
        if RANK == 1 and number == batch:
            act()

    return before


def train(
    base: Path, name: str, before: Callable[[int], None] = tiny_training.nothing, **options: Any
) -> dict[str, Any]:
    model = options.pop("model", tiny_training.Model)
    made = dataclasses.replace(tiny_training.config(base, before=before, **{**SETTINGS, **options}), model=model)
    summary = tiny_training.go(made, base / name)
    random = tiny_training.digest({"random": torch.get_rng_state()})
    weights = (
        tiny_training.digest(dict(made.built[-1].state_dict())) if isinstance(made.built[-1], torch.nn.Module) else ""
    )
    told = {name: getattr(summary, name) for name in ("status", "steps", "signal", "skipped_steps", "blew_up")}
    return {**told, "random": random, "weights": weights}


def filling(batch: int) -> Callable[[int], None]:
    """From this batch on the disk of the first rank, which alone writes, is full."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def before(number: int) -> None:
        if RANK == 0 and number == batch:
            Records.row = full  # type: ignore[method-assign]

    return before


def spoiling(base: Path) -> dict[str, Any]:
    """The second rank's batches 3, 4 and 5 give NaN."""
    models: list[tiny_training.Model] = []

    def watched(vocab_size: int, max_length: int, seed: int) -> tiny_training.Model:
        models.append(tiny_training.Model(vocab_size, max_length, seed))
        return models[-1]

    def before(number: int) -> None:
        models[-1].layers[1].spoilt = "forward" if RANK == 1 and number in (3, 4, 5) else ""

    return train(base, "spoilt", before, model=watched, max_skipped=3)


def main(base: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {
        "whole": train(base, "whole"),
        "plain": train(base, "plain", model=tiny_training.without_dropout),
        "interrupted": train(base, "broken", at(5, lambda: os.kill(os.getpid(), signal.SIGTERM))),
        "resumed": train(base, "broken"),
        "spoilt": spoiling(base),
        "muon": train(base, "muon", **OTHERWISE),
        "muon interrupted": train(
            base, "muon broken", at(6, lambda: os.kill(os.getpid(), signal.SIGTERM)), **OTHERWISE
        ),
        "muon resumed": train(base, "muon broken", **OTHERWISE),
    }
    try:
        train(base, "whole", lr=1.0)
    except Exception as error:  # the first rank's sentence, on both
        found["refused"] = f"{type(error).__name__}: {error}"
    for name, batch in (("full", 3), ("full at last", 9)):
        try:
            train(base, name, filling(batch))
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
        Records.row = ROW
    everyone: list[Any] = [None, None]
    dist.all_gather_object(everyone, found)
    if RANK == 0:
        (base / "found.json").write_text(json.dumps(everyone))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
