"""Which layer's which quantity blew up first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.session import Session


def blame(session: Session, batches: list[tuple[Tensor, Tensor]], random_states: list[Any]) -> str:
    """Find the first number that is not finite: forwards with the same batches and random numbers, then backwards."""
    found = session.ranks.gather(_forward(session, batches, random_states))
    return (
        next(filter(None, found), None)
        or backward_blame(session.model)
        or "the norm of the gradient is too large for its type"
    )


def _forward(session: Session, batches: list[tuple[Tensor, Tensor]], random_states: list[Any]) -> str | None:
    cuda = [session.ranks.device] if session.ranks.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), torch.no_grad(), session.autocast():
        for (tokens, targets), (cpu_state, cuda_state) in zip(batches, random_states, strict=True):
            torch.set_rng_state(cpu_state)
            if cuda_state is not None:
                torch.cuda.set_rng_state(cuda_state, session.ranks.device)
            for where, quantity in session.model.inspect(tokens, targets):
                if not bool(quantity.isfinite().all()):
                    return f"{where} is {_kind(quantity)}"
    return None


def backward_blame(model: torch.nn.Module) -> str | None:
    """The gradient nearest to the loss that is not finite: a bad one spoils all below it."""
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
            return f"the gradient of {readable(name)} is {_kind(parameter.grad)}, though the forward pass is finite"
    return None


def readable(name: str) -> str:
    """`layers.2.ffn.down` → `layer 3 ffn.down`: layers count from 1 wherever people read them."""
    return re.sub(r"^layers\.(\d+)\.", lambda match: f"layer {int(match[1]) + 1} ", name)


def _kind(quantity: Tensor) -> str:
    return "NaN" if bool(quantity.isnan().any()) else "infinite"
