"""What a method costs: the parameters it adds, and its time beside the baseline's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from zoo.extension import called
from zoo.model.build import model
from zoo.model.language_model import LanguageModel
from zoo.testing.method_under_test import Subject, seeded
from zoo.testing.report import Cost

DEPTH, WIDTH, LENGTH, BATCH = 4, 64, 64, 4
PASSES = 3


def cost(subject: Subject) -> Cost:
    """Measured on one small model; passes of the two are interleaved and the fastest of each counts."""
    plain = _build({})
    other = _build({subject.slot: called(subject.id, subject.factory, **subject.settings)})
    added = other.num_parameters() - plain.num_parameters()
    times: dict[str, list[float]] = {"plain": [], "other": []}
    for _ in range(PASSES + 1):
        times["plain"].append(_step(plain))
        times["other"].append(_step(other))
    ratio = min(times["other"][1:]) / min(times["plain"][1:])
    size = f"depth {DEPTH}, width {WIDTH}, length {LENGTH}"
    return Cost(size, added, added / plain.num_parameters(), ratio)


def describe(cost: Cost) -> str:
    parameters = f"{cost.parameters:,} parameters more ({cost.share:.2%})" if cost.parameters else "no parameters"
    return f"{parameters}; a training step takes {cost.time:.2f} of the baseline's time, roughly ({cost.size})"


def _build(slots: dict[str, Callable[..., Any]]) -> LanguageModel:
    return model(64, LENGTH, depth=DEPTH, width=WIDTH, head_dim=WIDTH // 2, **slots).train()


def _step(built: LanguageModel) -> float:
    tokens = torch.arange(BATCH * (LENGTH + 1)).view(BATCH, -1) * 7 % 64
    built.zero_grad(set_to_none=True)
    with seeded():
        began = time.perf_counter()
        built.loss(tokens[:, :-1], tokens[:, 1:]).backward()
        return time.perf_counter() - began
