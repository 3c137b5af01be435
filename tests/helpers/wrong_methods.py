"""Methods that compute what they should not, each with the seed of a real mistake, and what the kit must say of it."""

from __future__ import annotations

import random
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.extension import AttentionInputs, Layer, Residual, ScoreMixing, Site, TemporalMixing
from zoo.history import History
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
