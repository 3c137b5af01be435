"""Which layer's which quantity blew up first."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.training.replicas import NamedGradient
    from zoo.training.session import Session
from zoo.training.parameter_names import readable


def first_nonfinite(session: Session, batches: list[tuple[Tensor, Tensor]], random_states: list[Any]) -> str:
    """Find the first number that is not finite: forwards with the same batches and random numbers, then backwards."""
    bad_gradients = session.ranks.gather(first_nonfinite_gradient(session.replica.gradients()))
    with session.replica.whole():
        first_bad = session.ranks.gather(_forward(session, batches, random_states))
    return (
        next(filter(None, first_bad), None)
        or _nearest_to_loss(bad_gradients)
        or "the norm of the gradient is too large for its type"
    )


def _forward(session: Session, batches: list[tuple[Tensor, Tensor]], random_states: list[Any]) -> str | None:
    cuda = [session.ranks.device] if session.ranks.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), torch.no_grad(), session.autocast():
        for (tokens, targets), (cpu_state, cuda_state) in zip(batches, random_states, strict=True):
            torch.set_rng_state(cpu_state)
            if cuda_state is not None:
                torch.cuda.set_rng_state(cuda_state, session.ranks.device)
            if place := _first_bad(session, tokens, targets):
                return place
    return None


def _first_bad(session: Session, tokens: Tensor, targets: Tensor) -> str | None:
    """The first quantity of a forward pass that is not finite, and the method that made it."""
    for where, quantity in session.model.inspect(tokens, targets):
        if not bool(quantity.isfinite().all()):
            return f"{_with_methods(where, session.methods)} is {_kind(quantity)}"
    return None


def _with_methods(where: str, methods: Mapping[str, str]) -> str:
    """A label with the methods' names for their slots: `output {residual}` → `output (residual.ID)`."""
    named = re.sub(r"\{(\w+)\}", lambda slot: f"({methods[slot[1]]})" if slot[1] in methods else "", where)
    return " ".join(named.split())


@torch.no_grad()
def validation_blame(session: Session, split: str, loss: float) -> str:
    """Say of a loss that is not finite what is wrong first; each rank looks at its own batches."""
    ranks, model, place = session.ranks, session.model, None
    model.eval()
    try:
        passes = (each for batch in session.data.evaluate(split) for each in session.data.passes(*batch))
        for index, (tokens, targets) in enumerate(passes):
            if index % ranks.size == ranks.rank:
                tokens, targets = tokens.to(ranks.device), targets.to(ranks.device)
                with session.autocast():
                    bad = not math.isfinite(model.evaluate(tokens, targets)[0].item())
                    place = _first_bad(session, tokens, targets) if bad else None
                if bad:
                    break
    finally:
        model.train()
    where = next(filter(None, ranks.gather(place)), None)
    sentence = f"the validation loss is {number(loss)} at step {session.state.step:,}"
    return f"{sentence} ({where})" if where else sentence


def number(value: float) -> str:
    """NaN and infinity as people write them."""
    return "NaN" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.4f}"


class BadGradient(NamedTuple):
    """A gradient that is not finite."""

    place: int  # among all, from the input to the loss
    words: str


def first_nonfinite_gradient(gradients: Sequence[NamedGradient]) -> BadGradient | None:
    """The gradient nearest to the loss that is not finite: a bad one spoils all below it."""
    for place, (name, gradient) in reversed(list(enumerate(gradients))):
        if not bool(gradient.isfinite().all()):
            words = f"the gradient of {readable(name)} is {_kind(gradient)}, though the forward pass is finite"
            return BadGradient(place, words)
    return None


def _nearest_to_loss(of_ranks: Sequence[BadGradient | None]) -> str | None:
    """The bad gradient nearest to the loss, of those that the ranks found in their parts; None if all are finite."""
    bad = [each for each in of_ranks if each is not None]
    return max(bad).words if bad else None


def _kind(quantity: Tensor) -> str:
    return "NaN" if bool(quantity.isnan().any()) else "infinite"
