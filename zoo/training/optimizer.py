"""The optimisers and the learning-rate schedules that `train.optimizer` and `train.schedule` choose from.

Another one is a function and its entry in the table below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch

from zoo.training.adamw import make_adamw

if TYPE_CHECKING:
    from zoo.training.update_settings import UpdateSettings

Schedule = Callable[[int, int, "UpdateSettings"], float]  # step from 1, steps in all → the factor of the learning rate


class OptimizerEntry(NamedTuple):
    """An optimiser. Every group of parameters that it is made with has the `lr_factor` of `parameter_groups`."""

    make: Callable[[torch.nn.Module, UpdateSettings], torch.optim.Optimizer]
    numbers: int  # that it keeps per parameter, each of the parameter's own type


def make_optimizer(model: torch.nn.Module, settings: UpdateSettings) -> torch.optim.Optimizer:
    """The optimiser of a run, over the groups that the parameters' hints ask for."""
    return OPTIMIZERS[settings.optimizer].make(model, settings)


def numbers_kept(settings: UpdateSettings) -> int:
    """How many numbers per parameter the optimiser of a run keeps between steps."""
    return OPTIMIZERS[settings.optimizer].numbers


def learning_rate(step: int, steps: int, settings: UpdateSettings) -> float:
    """The learning rate at step 1 … steps, before a parameter's own factor."""
    return settings.lr * SCHEDULES[settings.schedule](step, steps, settings)


def cosine(step: int, steps: int, settings: UpdateSettings) -> float:
    """The factor of a linear warm-up, then of a cosine down to the final fraction."""
    warm, final = max(1, round(settings.warmup * steps)), settings.final_lr
    if step <= warm:
        return step / warm
    done = (step - warm) / max(1, steps - warm)
    return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2


OPTIMIZERS = {"adamw": OptimizerEntry(make_adamw, numbers=2)}
SCHEDULES: dict[str, Schedule] = {"cosine": cosine}
