"""The larger temporal mixers: RG-LRU gating (wr_7 …), contexts over the whole past (wr_9, wr_attend, wr_mean)."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from zoo_plugins.weak_recurrence import GatedMean, Mixing, bias, blend, matrix, scalar

from zoo.errors import ZooError
from zoo.extension import Layer, MixingSite, hint, preset
from zoo.functional import rms_norm
from zoo.scores import Factors, Term, attend
from zoo.state import State
from zoo.sums import previous, taps

DECAY = 8.0  # the c of RG-LRU (Griffin, arXiv 2402.19427, eq. 3)


class DecayGate(Mixing):
    """wr_7: r, i = σ(W_{r,i} u + b), a = exp(−8 softplus(Λ) r), z = RMSNorm(a⊙p + √(1−a²)⊙i⊙u_t), p = u_{t−1}.

    `as_logged` (wr_7_log): no σ, no root, Λ = −4.59, the norm only with `norm`. With `n` (wr_7_1), p is wr_8_2's mean.
    """

    def __init__(
        self, layer: Layer, as_logged: bool = False, norm: bool = True, n: int | None = None, site: MixingSite = "ffn"
    ) -> None:
        super().__init__(site)
        self.w_r, self.w_i = (matrix(layer.width, layer.width, std=0.02) for _ in range(2))
        self.b_r, self.b_i = bias(layer.width), bias(layer.width)
        half = math.log(math.expm1(math.log(2) / (DECAY / 2)))  # a = ½ where r = ½
        self.lam = scalar(-4.59 if as_logged else half)
        self.w = hint(nn.Parameter(torch.zeros(n))) if n else None
        self.as_logged = as_logged
        self.eps = layer.norm_eps if norm else None

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        p = previous(self, u, state) if self.w is None else taps(self, u, self.w.softmax(dim=0), state, first=1)
        joined = F.linear(u, torch.cat([self.w_r, self.w_i]), torch.cat([self.b_r, self.b_i]))
        r, i = (joined if self.as_logged else joined.sigmoid()).chunk(2, dim=-1)
        a = torch.exp(-DECAY * F.softplus(self.lam) * r)
        rest = 1 - a * a
        mixed = torch.addcmul(a * p, rest if self.as_logged else rest.sqrt(), i * u)
        return mixed if self.eps is None else rms_norm(mixed, None, self.eps)

    def probes(self) -> dict[str, Tensor]:
        decay = {"decay": torch.exp(-DECAY / 2 * F.softplus(self.lam))}  # a at r = ½
        return decay if self.w is None else decay | {"kernel": self.w.softmax(dim=0)}


def _mean_decay_gate(layer: Layer, n: int = 4, site: MixingSite = "ffn") -> DecayGate:
    """wr_7_1: wr_7 with u_{t−1} replaced by wr_8_2's softmax mean over n tokens."""
    return DecayGate(layer, n=n, site=site)


class _Scan(torch.autograd.Function):
    """h_t = a_t h_{t−1} + b_t along dimension 1, and its reverse in backward."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, start: Tensor) -> Tensor:
        h = b.clone()
        before = start
        for t in range(h.size(1)):
            before = h[:, t].addcmul_(a[:, t], before)
        ctx.save_for_backward(a, h, start)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, h, start = ctx.saved_tensors
        d_b = grad.clone()
        for t in range(h.size(1) - 2, -1, -1):
            d_b[:, t].addcmul_(a[:, t + 1], d_b[:, t + 1])
        before = torch.cat([start[:, None], h[:, :-1]], dim=1)
        return d_b * before, d_b, a[:, 0] * d_b[:, 0]


class GriffinBlock(Mixing):
    """wr_7_2: the recurrent block of Griffin as mixer. Two branches D → R; GELU on one; a convolution of width 4 and RG-LRU
    on the other; their product is projected back. Gates are block-diagonal, a block a head. Decoding keeps 3 rows and h."""

    def __init__(self, layer: Layer, rnn_dim: int | None = None, site: MixingSite = "ffn") -> None:
        super().__init__(site)
        width, rnn, heads = layer.width, rnn_dim or layer.width, layer.num_heads
        if rnn % heads:
            raise ValueError(f"rnn_dim = {rnn} is not a multiple of the {heads} heads")
        self.w_y, self.b_y = matrix(rnn, width), bias(rnn)
        self.w_x, self.b_x = matrix(rnn, width), bias(rnn)
        self.conv_w = hint(nn.Parameter(torch.randn(rnn, 4) / 2))
        self.conv_b = bias(rnn)
        self.w_r, self.w_i = (
            nn.Parameter(torch.randn(heads, rnn // heads, rnn // heads) * (heads / rnn) ** 0.5) for _ in "ri"
        )
        self.b_r, self.b_i = bias(rnn), bias(rnn)
        decay = torch.empty(rnn).uniform_(0.9, 0.999)  # a where r = 1
        self.lam = hint(nn.Parameter(torch.log(torch.expm1(-decay.log() / DECAY))))
        self.w_out, self.b_out = matrix(width, rnn), bias(width)

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        first = F.gelu(F.linear(u, self.w_y, self.b_y))
        p = taps(self, F.linear(u, self.w_x, self.b_x), self.conv_w.T, state) + self.conv_b
        r = self._blocks(p, self.w_r, self.b_r).sigmoid()
        i = self._blocks(p, self.w_i, self.b_i).sigmoid()
        log_a = -DECAY * F.softplus(self.lam) * r
        b = torch.sqrt(-torch.expm1(2 * log_a)) * i * p
        start = None if state is None else state.get(self, "h")
        h = _Scan.apply(log_a.exp(), b, torch.zeros_like(b[:, 0]) if start is None else start)
        if state is not None:
            state.set(self, "h", h[:, -1].clone())
        return F.linear(first * h, self.w_out, self.b_out)

    @staticmethod
    def _blocks(p: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        heads = p.unflatten(-1, (weight.size(0), -1))  # (B, T, G, R/G)
        return torch.einsum("btgi,goi->btgo", heads, weight).flatten(-2) + bias

    def probes(self) -> dict[str, Tensor]:
        return {"decay": torch.exp(-DECAY / 2 * F.softplus(self.lam)).mean()}


CHUNK = 64


class LinearMemory(GatedMean):
    """wr_9: c'_t = 1/D Σ_{s≤t} (c_t·u_s) W_A u_s with wr_8_2's mean c, then gated as wr_8_2. Decoding keeps a D×D state."""

    def __init__(self, layer: Layer, n: int = 4, random: bool = False, site: MixingSite = "ffn") -> None:
        super().__init__(layer, n, random, site)
        self.w_a = matrix(layer.width, layer.width)

    def context(self, u: Tensor, state: State | None) -> Tensor:
        c, values = self.mean(u, state), F.linear(u, self.w_a)
        memory = None if state is None else state.get(self, "memory")
        if memory is None:
            memory = u.new_zeros(u.size(0), u.size(2), u.size(2))  # Σ_s u_s (W_A u_s)ᵀ
        done = []
        for c_t, u_s, v_s in zip(*(x.split(CHUNK, dim=1) for x in (c, u, values)), strict=True):
            within = (c_t @ u_s.mT).tril() @ v_s
            done.append(within + c_t @ memory)
            memory = memory + u_s.mT @ v_s
        if state is not None:
            state.set(self, "memory", memory)
        return torch.cat(done, dim=1) / u.size(-1)


class LinearMemoryLeak(GatedMean):
    """wr_9_log, as coded: c (uᵀA) sums over the whole sequence, so every position sees the future. A ∈ R^{T×D}."""

    causal = False
    decodes = False

    def __init__(self, layer: Layer, n: int = 4, random: bool = False, site: MixingSite = "ffn") -> None:
        super().__init__(layer, n, random, site)
        self.a = matrix(layer.max_length, layer.width, std=0.02)

    def context(self, u: Tensor, state: State | None) -> Tensor:
        if u.size(1) > self.a.size(0):
            raise ZooError(
                f"LinearMemoryLeak has weights for {self.a.size(0)} positions and was given {u.size(1)}:"
                f" use at most {self.a.size(0)} tokens, or train with a larger data.length"
            )
        return self.mean(u, state) @ (u.mT @ self.a[: u.size(1)])


class PastPooling(Mixing):
    """z = g u + (1−g) P with P_t = (a pooling of all u_s, s < t) W1ᵀ and P_0 = 0."""

    def __init__(self, layer: Layer, site: MixingSite) -> None:
        super().__init__(site)
        self.w1 = matrix(layer.width, layer.width)
        self.gamma = scalar()

    def pool(self, u: Tensor, state: State | None) -> Tensor:
        raise NotImplementedError

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return blend(F.linear(self.pool(u, state), self.w1), u, self.gamma.sigmoid())

    def probes(self) -> dict[str, Tensor]:
        return {"gate": self.gamma.sigmoid()}


class PastAttention(PastPooling):
    """wr_attend: Σ_{s<t} softmax_s(u_t·u_s/√D) u_s. Decoding keeps every u."""

    def __init__(self, layer: Layer, site: MixingSite = "ffn") -> None:
        super().__init__(layer, site)

    def pool(self, u: Tensor, state: State | None) -> Tensor:
        past = u if state is None else state.append(self, "past", u, dim=1)
        new = past.size(1) - u.size(1)
        asking = u[:, 1:] if new == 0 else u  # position 0 has nothing before it
        if asking.size(1) == 0:
            return torch.zeros_like(u)
        seen = past[:, None, :-1]  # the last row is nobody's past yet
        pooled = attend(Factors((Term(asking[:, None], seen, query=u.size(-1) ** -0.5),)), seen)[:, 0]
        return F.pad(pooled, (0, 0, 1, 0)) if new == 0 else pooled


class PastMean(PastPooling):
    """wr_mean: 1/t Σ_{s<t} u_s. Decoding keeps the sum."""

    def __init__(self, layer: Layer, site: MixingSite = "ffn") -> None:
        super().__init__(layer, site)

    def pool(self, u: Tensor, state: State | None) -> Tensor:
        kept = None if state is None else state.get(self, "sum")
        sums = u.cumsum(dim=1) if kept is None else u.cumsum(dim=1) + kept[:, None]
        if state is not None:
            state.set(self, "sum", sums[:, -1].clone())
        start = 0 if state is None else state.start
        counts = torch.arange(start, start + u.size(1), device=u.device, dtype=u.dtype).clamp_(min=1)
        return (sums - u) / counts[:, None]


wr_7 = preset(
    DecayGate,
    "z = RMSNorm(a⊙u_{t−1} + √(1−a²)⊙i⊙u_t), RG-LRU's gates on the token before",
    as_logged=False,
    norm=True,
    n=None,
)


def _logged_decay_gate(layer: Layer, norm: bool = False, site: MixingSite = "ffn") -> DecayGate:
    """wr_7_log, as coded: r and i without σ, 1−a² without the root, Λ = −4.59, and the norm only if asked for."""
    return DecayGate(layer, as_logged=True, norm=norm, site=site)


wr_7_log = _logged_decay_gate
wr_7_1 = _mean_decay_gate
wr_7_2 = GriffinBlock
wr_9 = LinearMemory
wr_9_log = LinearMemoryLeak
wr_attend = PastAttention
wr_mean = PastMean
