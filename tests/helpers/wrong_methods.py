"""Methods that are wrong on purpose, each with the seed of a real mistake, and what the kit must say of it."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.extension import AttentionInputs, HeadMixing, Layer, Residual, ScoreMixing, Site, TemporalMixing
from zoo.history import History, Projected
from zoo.kernels.attend import Factors, Scores
from zoo.kernels.blocked_attention import Term
from zoo.state import State


class Mixing(TemporalMixing):
    """A temporal mixing with one weight, which `mix` may use."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer
        self.w = nn.Parameter(torch.ones(layer.width))

    def mix(self, u: Tensor) -> Tensor:
        return u

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return self.mix(u) * self.w


# --- sight


class MaskAfterSoftmax(Mixing):
    """Attention of its own that hides the future too late: the sum under the softmax has seen it."""

    site = "attention"
    decodes = False

    def mix(self, u: Tensor) -> Tensor:
        weights = (u @ u.mT).softmax(dim=-1)
        return weights.tril() @ u


class WholeSequence(Mixing):
    decodes = False

    def mix(self, u: Tensor) -> Tensor:
        return u + u.mean(dim=1, keepdim=True)


class PeeksWithoutGradient(Mixing):
    """What follows decides which way is taken: no derivative shows it."""

    decodes = False

    def mix(self, u: Tensor) -> Tensor:
        return torch.where(u[:, -1:, :1].detach() > 0, u, -u)


class DividesByLength(Mixing):
    decodes = False

    def mix(self, u: Tensor) -> Tensor:
        return u.cumsum(dim=1) / u.size(1)


class LeaksBehindCache(Mixing):
    """Without a state it is causal."""

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return u if state is None else u.flip(1)


class NormalisesTheBatch(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        return u / (1 + u.abs().mean(dim=(0, 2), keepdim=True))


class LeaksInOneSetting(Mixing):
    def __init__(self, layer: Layer, over: Literal["past", "all"] = "past") -> None:
        super().__init__(layer)
        self.over = over
        self.decodes = over == "past"

    def mix(self, u: Tensor) -> Tensor:
        return u if self.over == "past" else u + u.sum(dim=1, keepdim=True)


class SaysItLeaks(Mixing):
    causal = False


# --- decoding


class TableFromZero(Mixing):
    """A table of positions that begins anew with every chunk."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.table = nn.Parameter(torch.randn(layer.max_length, 1))

    def mix(self, u: Tensor) -> Tensor:
        return u * self.table[: u.size(1)]


class ScoresFromZero(ScoreMixing):
    """A weight a key position; the keys in the cache are forgotten."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(layer.max_length, 1))

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        return Factors((Term(q, k, query=self.w[: q.size(2)] * q.size(-1) ** -0.5),))


class ForgetsThePast(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        return u + F.pad(u, (0, 0, 1, 0))[:, :-1]


class RowsNotFirst(Mixing):
    """What it keeps is not batch first, so that beams get each other's past."""

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        kept = None if state is None else state.get(self, "past")
        past = u.new_zeros(u.size(0), 1, u.size(2)) if kept is None else kept.movedim(2, 0)
        if state is not None:
            state.set(self, "past", u[:, -1:].movedim(0, 2))  # (1, D, B)
        return (u + torch.cat([past, u[:, :-1]], dim=1)) * self.w


class RefusesNothing(Mixing):
    """Declared after the model has asked."""

    @property
    def decodes(self) -> bool:  # type: ignore[override]
        self.asked = getattr(self, "asked", 0) + 1
        return self.asked < 2


# --- gradients


class DeadParameter(Mixing):
    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.unused = nn.Parameter(torch.zeros(3))


class WronglyIdle(Mixing):
    idle = frozenset({"w"})


class IdleMisspelt(Mixing):
    idle = frozenset({"v"})


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad  # forgets the 2


class WrongBackward(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        return _Twice.apply(u)  # type: ignore[no-any-return]


class StopsGradient(Mixing):
    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return u * self.w.detach() + u * self.w


class StopsGradientAsDeclared(StopsGradient):
    exact_gradient = False


class CountsItsPasses(Mixing):
    """The second run of a checkpointed layer is another pass."""

    passes = 0

    def mix(self, u: Tensor) -> Tensor:
        self.passes += self.training
        return u * (1 + self.passes % 2)


class OtherFormulaWhenCompiled(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        return u + 1e-3 if torch.compiler.is_compiling() else u


# --- purity


class ConvolutionInForward(Mixing):
    """Its weights are new in every pass."""

    decodes = False

    def mix(self, u: Tensor) -> Tensor:
        convolution = nn.Conv1d(u.size(2), u.size(2), 2, dtype=u.dtype, device=u.device)
        return convolution(F.pad(u, (0, 0, 1, 0)).transpose(1, 2)).transpose(1, 2)


class AlwaysDropsOut(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        return F.dropout(u, 0.5, training=True)


class DrawsInVain(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        torch.rand(1)
        return u


class DrawsFromPython(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        random.random()
        return u


class Remembers(Mixing):
    """The last pass's mean goes into the next pass."""

    last = 0.0

    def mix(self, u: Tensor) -> Tensor:
        mixed = u + self.last
        self.last = float(u.mean())
        return mixed


class SaysItIsRandom(Mixing):
    deterministic = False


class ChangesItsInput(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        return u.mul_(2) if not torch.is_grad_enabled() else u * 2


class ChangesTheHistory(Residual):
    reads = frozenset({"ffn"})

    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        if history.ffn and not torch.is_grad_enabled():
            history.ffn[0].add_(branch)
        return stream + branch


class NeedsContiguous(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        return u.view(-1).view(u.shape)


class SetsThreads(Mixing):
    def mix(self, u: Tensor) -> Tensor:
        torch.set_num_threads(torch.get_num_threads() + 1)
        return u


class SetsDenormalsWhenBuilt(Mixing):
    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        torch.set_flush_denormal(True)


class ChangesTheStream(Residual):
    """In place, where a gradient is wanted too."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        stream += branch * self.w
        return stream


# --- effect


class Misspelt(Residual):
    """Nothing calls what it computes."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def wirte(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        return stream - branch


class PlainAsDeclared(Residual):
    starts_as = "baseline"

    def __init__(self, layer: Layer) -> None:
        super().__init__()


class ForgetsToDeclare(Residual):
    """A sum over layers that was empty wherever nobody else kept it."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        return sum(history.ffn, start=stream + branch)


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
