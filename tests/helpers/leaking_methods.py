"""Methods that leak, each in another way and at any strength: what the kit or the trainer must notice."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from zoo.extension import Layer, TemporalMixing
from zoo.state import State

FROM = 13  # the length from which some leak: one more than the longest sequence of many a test


def whole(u: Tensor) -> Tensor:
    """The mean of the sequence."""
    return u.mean(dim=1, keepdim=True).expand_as(u)


def following(u: Tensor) -> Tensor:
    """The next token."""
    return torch.cat([u[:, 1:], torch.zeros_like(u[:, :1])], dim=1)


def chunked(size: int) -> Callable[[Tensor], Tensor]:
    """The mean of the chunk that a token is in."""

    def leak(u: Tensor) -> Tensor:
        parts = [whole(part) for part in u.split(size, dim=1)]
        return torch.cat(parts, dim=1)

    return leak


def second_half(u: Tensor) -> Tensor:
    """The next token, for the second half of the positions."""
    late = torch.arange(u.size(1)) >= u.size(1) // 2
    return following(u) * late[:, None]


def normalised(u: Tensor) -> Tensor:
    """What a norm of each feature over the whole sequence changes."""
    return u / (1e-3 + u.square().mean(dim=1, keepdim=True).sqrt()) - u


def flat(u: Tensor) -> Tensor:
    """The token before, of the batch as one long row: a row's first token sees the last of the row above."""
    return u.flatten(0, 1).roll(1, dims=0).view_as(u)


def last_pair(u: Tensor) -> Tensor:
    """The last token, for the one before it."""
    there = torch.arange(u.size(1)) == u.size(1) - 2
    return following(u) * there[:, None]


def later_rows(u: Tensor) -> Tensor:
    """The next token, in the fourth row and those behind it."""
    late = torch.arange(u.size(0)) >= 3
    return following(u) * late[:, None, None]


def decides(u: Tensor) -> Tensor:
    """A sign that the last token decides: no derivative shows it."""
    return torch.where(u[:, -1:, :1].detach() > 0, u, -u)


class Leak(TemporalMixing):
    """The input, and `strength` times what it should not see."""

    decodes = False
    sees: Callable[[Tensor], Tensor] = staticmethod(whole)
    least = 2  # the shortest sequence in which it leaks
    modes: tuple[bool, ...] = (True, False)  # training, evaluation

    def __init__(self, layer: Layer, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength if self.here(layer) else 0.0
        self.w = nn.Parameter(torch.ones(layer.width))

    def here(self, layer: Layer) -> bool:
        return True

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        if self.strength and u.size(1) >= self.least and self.training in self.modes:
            u = u + self.strength * self.sees(u)
        return u * self.w


class Gated(Leak):
    """Through a gate that starts closed."""

    def __init__(self, layer: Layer, strength: float = 1.0) -> None:
        super().__init__(layer, strength)
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return u * self.w + self.strength * self.gate * self.sees(u)


class LastLayer(Leak):
    sees = staticmethod(following)

    def here(self, layer: Layer) -> bool:
        return layer.number == layer.num_layers


class SeventhLayer(Leak):
    """From the seventh layer on: a model of fewer does not leak."""

    def here(self, layer: Layer) -> bool:
        return layer.number >= 7


def leak(
    sees: Callable[[Tensor], Tensor], least: int = 2, modes: tuple[bool, ...] = (True, False), base: type[Leak] = Leak
) -> type[Leak]:
    name = f"{base.__name__}_{getattr(sees, '__name__', 'leak')}"
    return type(name, (base,), {"sees": staticmethod(sees), "least": least, "modes": modes, "__module__": __name__})


LEAKS: dict[str, type[Leak]] = {
    "mean of the sequence": leak(whole),
    "next token": leak(following),
    "next token, last layer alone": LastLayer,
    "norm over the sequence": leak(normalised),
    "second half sees the next token": leak(second_half),
    "last token but one sees the last": leak(last_pair),
    "pairs": leak(chunked(2)),
    "chunks of 8": leak(chunked(8)),
    "chunks of 16": leak(chunked(16)),
    "whole sequence, beyond 12 tokens": leak(whole, FROM),
    "pairs, beyond 12 tokens": leak(chunked(2), FROM),
    "chunks of 8, beyond 12 tokens": leak(chunked(8), FROM),
    "chunks of 16, beyond 12 tokens": leak(chunked(16), FROM),
    "second half, beyond 12 tokens": leak(second_half, FROM),
    "whole sequence, beyond 63 tokens": leak(whole, 64),
    "chunks of 16, beyond 128 tokens": leak(chunked(16), 129),
    "from layer 7 on": SeventhLayer,
    "from the fourth row on": leak(later_rows),
    "flattened batch, shifted": leak(flat),
    "decided by the last token, no derivative": leak(decides),
    "in training alone": leak(following, modes=(True,)),
    "in evaluation alone": leak(following, modes=(False,)),
    "chunks of 8 beyond 12 tokens, in training alone": leak(chunked(8), FROM, (True,)),
    "through a gate that starts closed": leak(following, base=Gated),
}
STRENGTHS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
