"""The optimisers that `train.optimizer` chooses from.

Another one is a function and its entry in the table below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

from zoo.training.adamw import make_adamw
from zoo.training.muon import make_muon

if TYPE_CHECKING:
    from zoo.training.update_settings import UpdateSettings


class Optimizer(Protocol):
    """What a run asks of its optimiser; torch's own have it."""

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...
    def step(self) -> Any: ...
    def zero_grad(self, set_to_none: bool = True) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any], /) -> None: ...


class OptimizerEntry(NamedTuple):
    """An optimiser. Every group of parameters that it is made with has the `lr_factor` of `parameter_groups`."""

    make: Callable[[torch.nn.Module, UpdateSettings], Optimizer]
    numbers: int  # that it keeps per parameter, at most, each of the parameter's own type


def make_optimizer(model: torch.nn.Module, settings: UpdateSettings) -> Optimizer:
    """The optimiser of a run, over the groups that the parameters' hints ask for."""
    return OPTIMIZERS[settings.optimizer].make(model, settings)


def numbers_kept(settings: UpdateSettings) -> int:
    """How many numbers per parameter the optimiser of a run keeps between steps."""
    return OPTIMIZERS[settings.optimizer].numbers


OPTIMIZERS = {"adamw": OptimizerEntry(make_adamw, numbers=2), "muon": OptimizerEntry(make_muon, numbers=2)}
