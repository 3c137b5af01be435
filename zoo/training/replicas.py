"""A model as training steps see it: what each rank holds of it, and how ranks exchange gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from zoo.training.ranks import Ranks


class NamedGradient(NamedTuple):
    """The gradient of a parameter, as far as it is on this rank."""

    parameter: str
    value: Tensor


class Replica:
    """A model that is alone. Other kinds of replicas differ in what is said here and nowhere else."""

    is_sharded = False
    is_whole = True  # whether `model` has its weights now

    def __init__(self, model: Any, ranks: Ranks) -> None:
        self.model = model  # evaluated, watched and asked for its probes, where it is whole
        self.trained: Any = model  # whose parameters the optimiser moves
        self.ranks = ranks
        self._called: nn.Module = model

    def loss(self, tokens: Tensor, targets: Tensor, z_loss: float) -> Tensor:
        """The mean loss of a pass over targets of this rank."""
        loss: Tensor = self._called(tokens, targets=targets, reduction="mean", z_loss=z_loss)
        return loss

    def one_pass(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        """Around the forward and backward pass of each part of a step; `last`: of the last part."""
        return contextlib.nullcontext()

    def exchange_rest(self) -> None:
        """After the last backward pass of a step: exchange the gradients that were not exchanged on the way."""

    def gradients(self) -> list[NamedGradient]:
        """What this rank holds of the gradients; changed in place, it is what the optimiser sees."""
        return [
            NamedGradient(name, parameter.grad)
            for name, parameter in self.trained.named_parameters()
            if parameter.grad is not None
        ]

    def norm(self) -> float:
        """The norm of all gradients, over all ranks."""
        return torch.nn.utils.get_total_norm([gradient.value for gradient in self.gradients()]).item()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """With all weights in `model`, on every rank; all ranks enter this together, and each may then go its own way."""
        yield


class Averaged(Replica):
    """A model that every rank holds as a whole; gradients are averaged with the last part of a step (DDP)."""

    def __init__(self, model: Any, ranks: Ranks) -> None:
        super().__init__(model, ranks)
        self._called = ranks.averaging(model)

    def one_pass(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        waiting: contextlib.AbstractContextManager[Any] = (
            contextlib.nullcontext() if last else self._called.no_sync()  # type: ignore[operator]
        )
        return waiting
