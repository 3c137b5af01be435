"""Methods that are wrong as modules: how they are built, kept and combined. What they compute: wrong_methods."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import torch
import torch.nn.functional as F
from helpers.wrong_methods import Mixing
from torch import Tensor, nn

from zoo.extension import AttentionInputs, HeadMixing, Layer, Residual, ScoreMixing, TemporalMixing
from zoo.history import History, Projected
from zoo.kernels.attend import Factors, Scores
from zoo.kernels.blocked_attention import Term
from zoo.state import State

# --- building


class RandomStart(Mixing):
    """Its start does not come from torch's seed."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.w = nn.Parameter(torch.full((layer.width,), random.SystemRandom().random()))


class NotFinite(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        return u / (u - u)


class WrongShape(Mixing):
    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return (u * self.w)[:, :, :1]


class WrongKind(Residual):
    """A residual where a temporal mixing is wanted."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()


class TakesWidthForHeads(ScoreMixing):
    """Right as long as heads · head_dim = width."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(layer.width // layer.num_heads))

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        return Factors((Term(q * self.w, k),))


class ProbesNoTensor(Mixing):
    def probes(self) -> dict[str, Tensor]:
        return {"gate": 0.5}  # type: ignore[dict-item]


class FixedType(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        return u @ torch.ones(u.size(2), u.size(2), dtype=torch.float64).to(u.device)


class MeetsAutocast(Mixing):
    """The two sides of lerp have different types once a matrix product is narrower."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.h = nn.Parameter(torch.randn(layer.width, layer.width))

    def mix(self, u: Tensor) -> Tensor:
        return torch.lerp(F.linear(u, self.h), u, 0.5)


class ShortTable(Mixing):
    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.table = nn.Parameter(torch.randn(layer.max_length, 1))
        self.decodes = False

    def mix(self, u: Tensor) -> Tensor:
        return u * self.table[: u.size(1)]


# --- keeping


class StartsElsewhere(Mixing):
    starts_as = "baseline"

    def mix(self, u: Tensor) -> Tensor:
        return u * 1.01


class StartsBesideFreshNormsAlone(Mixing):
    """It takes its input for normed, which it is as long as the gains of the norm are 1."""

    starts_as = "baseline"

    def mix(self, u: Tensor) -> Tensor:
        return u * (100 * u.square().mean(-1, keepdim=True).sqrt()).round() / 100


class StartsAsNobody(Mixing):
    starts_as = "no_such_method"


class PlainTensor(Mixing):
    """Drawn when it is built, and in no state dict."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.table = torch.randn(layer.width)

    def mix(self, u: Tensor) -> Tensor:
        return u + self.table.to(u)


class BufferNotSaved(Mixing):
    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.register_buffer("table", torch.randn(layer.width), persistent=False)

    def mix(self, u: Tensor) -> Tensor:
        return u + self.table


class StatisticNotSaved(Mixing):
    """A running mean of what training saw, in a plain attribute."""

    mean = 0.0

    def mix(self, u: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * float(u.detach().square().mean())
            return u
        return u + self.mean


class StaysOnTheCPU(Mixing):
    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.table = torch.ones(1, layer.width)

    def mix(self, u: Tensor) -> Tensor:
        return u + self.table.to(u.dtype)


class HoldsALambda(Mixing):
    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.change = lambda u: u

    def mix(self, u: Tensor) -> Tensor:
        return self.change(u)  # type: ignore[no-any-return]


class SharesItsWeight(Mixing):
    """A closure over the parameter: a copy of the model still uses the first one's."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.hidden = _Holder(self.w)

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return u * self.hidden.weight.to(u)


class _Holder:
    def __init__(self, weight: nn.Parameter) -> None:
        self.weight = weight

    def __deepcopy__(self, memo: Any) -> _Holder:
        return self


class OtherFormulaWhenNarrow(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        return 2 * u if torch.is_autocast_enabled("cpu") else u


class BorrowsAMatrix(Mixing):
    """Every layer uses the matrix of the first one, which it holds behind the module's back."""

    lenders: dict[Layer, BorrowsAMatrix] = {}

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.matrix = nn.Parameter(torch.eye(layer.width))
        first = dataclasses.replace(layer, index=0)
        if layer.index == 0:
            self.lenders[layer] = self
        self.lender = [self.lenders[first]]

    def mix(self, u: Tensor) -> Tensor:
        return u @ self.lender[0].matrix + u @ self.matrix


# --- company


class BlowsUp(Mixing):
    """Finite at the start; one step of the optimiser later it is not."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.theta = nn.Parameter(torch.zeros(()))

    def mix(self, u: Tensor) -> Tensor:
        return u * torch.exp(1e5 * self.theta).clamp(min=1.0) ** 2


class TakesOtherSlotsForEmpty(ScoreMixing):
    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        assert type(history.current.block.temporal_mixing) is TemporalMixing, "somebody else is here"
        return super().forward(q, k, inputs, history, state)


class NeedsASetting(Mixing):
    def __init__(self, layer: Layer, factor: float) -> None:
        super().__init__(layer)


class Heads(HeadMixing):
    """A head mixing with a weight per head of the values."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(layer.num_kv_heads, 1))


class LooksAheadInHeads(Heads):
    def project(self, heads: Projected, normed: AttentionInputs, history: History, state: State | None) -> Projected:
        return heads._replace(v=heads.v + self.w * heads.v.roll(-1, dims=1))


class ForgetsEarlierHeads(Heads):
    def project(self, heads: Projected, normed: AttentionInputs, history: History, state: State | None) -> Projected:
        earlier = torch.cat([torch.zeros_like(heads.v[:, :1]), heads.v[:, :-1]], dim=1)
        return heads._replace(v=heads.v + self.w * earlier)


class ChangesTheHeads(Heads):
    def project(self, heads: Projected, normed: AttentionInputs, history: History, state: State | None) -> Projected:
        heads.v.mul_(self.w)
        return heads


class ChangesTheAnswer(Heads):
    def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
        normed.query.mul_(2.0)
        return heads * self.w.mean()
