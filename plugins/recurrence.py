"""The larger temporal mixers: RG-LRU gating (wr_7 …), contexts over the whole past (wr_9, wr_attend, wr_mean)."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo_plugins.weak_recurrence import GatedMean, Mixing, Place, bias, blend, matrix, past_tokens, placed, scalar

from zoo.errors import ZooError
from zoo.extension import AttentionInputs, Layer, ScoreMixing, hint, preset
from zoo.functional import rms_norm
from zoo.history import History
from zoo.scan import scalar_decay
from zoo.scores import Factors, Scores, Term, attend
from zoo.state import State, with_past
from zoo.sums import previous, taps

DECAY = 8.0  # the c of RG-LRU (Griffin, arXiv 2402.19427, eq. 3)


def half_decay() -> float:
    """The Λ with which a = ½ where r = ½."""
    return math.log(math.expm1(math.log(2) / (DECAY / 2)))


def decayed(mixing: Mixing, p: Tensor, u: Tensor, gates: Tensor, lam: Tensor) -> Tensor:
    """a⊙p + √(1−a²)⊙i⊙u, a = exp(−8 softplus(Λ) r), with r and i side by side in `gates`."""
    r, i = gates.chunk(2, dim=-1)
    log_a = -DECAY * F.softplus(lam) * r
    a = log_a.exp()
    mixing.watch("kept", a)
    mixing.watch("input_gate", i)
    return torch.addcmul(a * p, torch.sqrt(-torch.expm1(2 * log_a)), i * u)


class DecayGate(Mixing):
    """wr_7: r, i = σ(W_{r,i} u + b), a = exp(−8 softplus(Λ) r), z = RMSNorm(a⊙p + √(1−a²)⊙i⊙u_t), p = u_{t−1}.

    `as_logged` (wr_7_log): no σ, no root, Λ = −4.59. With `n` (wr_7_1), p is wr_8_2's mean. `norm`: with the RMSNorm.
    """

    def __init__(
        self, layer: Layer, as_logged: bool = False, norm: bool = True, n: int | None = None, site: Place = "ffn"
    ) -> None:
        super().__init__(site)
        self.w_r, self.w_i = (matrix(layer.width, layer.width, std=0.02) for _ in range(2))
        self.b_r, self.b_i = bias(layer.width), bias(layer.width)
        self.lam = scalar(-4.59 if as_logged else half_decay())
        self.w = None if n is None else hint(nn.Parameter(torch.zeros(past_tokens(n))))
        self.as_logged = as_logged
        self.eps = layer.norm_eps if norm else None

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        p = previous(self, u, state) if self.w is None else taps(self, u, self.w.softmax(dim=0), state, first=1)
        joined = F.linear(u, torch.cat([self.w_r, self.w_i]), torch.cat([self.b_r, self.b_i]))
        if self.as_logged:
            r, i = joined.chunk(2, dim=-1)
            a = torch.exp(-DECAY * F.softplus(self.lam) * r)
            self.watch("kept", a)
            self.watch("input_gate", i)
            mixed = torch.addcmul(a * p, 1 - a * a, i * u)
        else:
            mixed = decayed(self, p, u, joined.sigmoid(), self.lam)
        return mixed if self.eps is None else rms_norm(mixed, None, self.eps)

    def probes(self) -> dict[str, Tensor]:
        decay = {"decay": torch.exp(-DECAY / 2 * F.softplus(self.lam))}  # a at r = ½
        return decay if self.w is None else decay | {"kernel": self.w.softmax(dim=0)}


class GatedBranches(Mixing):
    """wr_7_2: Griffin's block in the notes' form, without recurrence. Two branches D → R; GELU on one; on the other a causal
    convolution of width 4 for each channel, then wr_7's gating of its previous row; their product is projected back.

    R is 4D/3, rounded up to a multiple of the head width. Decoding keeps 4 rows of R numbers.
    """

    def __init__(self, layer: Layer, rnn_dim: int | None = None, skip: bool = False, site: Place = "ffn") -> None:
        super().__init__(site)
        width, rnn = layer.width, rnn_dim or -(-4 * layer.width // (3 * layer.head_dim)) * layer.head_dim
        self.w_y, self.b_y = matrix(rnn, width), bias(rnn)
        self.w_x, self.b_x = matrix(rnn, width), bias(rnn)
        self.conv_w = hint(nn.Parameter(torch.randn(rnn, 4) / 2))
        self.conv_b = bias(rnn)
        self.w_r, self.w_i = (matrix(rnn, rnn, std=0.02) for _ in range(2))
        self.b_r, self.b_i = bias(rnn), bias(rnn)
        self.lam = scalar(half_decay())
        self.w_out, self.b_out = matrix(width, rnn), bias(width)
        self.skip = skip

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        first = F.gelu(F.linear(u, self.w_y, self.b_y))
        v = taps(self, F.linear(u, self.w_x, self.b_x), self.conv_w.T, state) + self.conv_b
        before = with_past(state, self, v, 1, name="convolved")[:, :-1]
        joined = F.linear(v, torch.cat([self.w_r, self.w_i]), torch.cat([self.b_r, self.b_i]))
        second = decayed(self, before, v, joined.sigmoid(), self.lam)
        out = F.linear(first * second, self.w_out, self.b_out)
        return u + out if self.skip else out

    def probes(self) -> dict[str, Tensor]:
        return {"decay": torch.exp(-DECAY / 2 * F.softplus(self.lam))}


CHUNK = 64


def rows_of(table: Tensor, first: int, last: int, who: str) -> Tensor:
    """The rows of a table that has one for each position, which it must have."""
    if last > table.size(0):
        raise ZooError(
            f"{who} has weights for {table.size(0)} positions and was given {last}:"
            f" use at most {table.size(0)} tokens, or train with a larger data.length"
        )
    return table[first:last]


class LinearMemory(GatedMean):
    """wr_9: c'_t = 1/D Σ_{s≤t} (c_t·u_s) A_s with wr_8_2's mean c and a learned A_s for each position, gated as wr_8_2.

    `values = "token"`: W_A u_s in place of A_s. Decoding keeps a D×D state.
    """

    def __init__(
        self,
        layer: Layer,
        values: Literal["position", "token"] = "position",
        n: int = 2,
        random: bool = False,
        site: Place = "ffn",
    ) -> None:
        super().__init__(layer, n, random, site)
        if values == "token":
            self.w_a = matrix(layer.width, layer.width)
        else:
            self.a = matrix(layer.max_length, layer.width, std=0.02)
        self.values = values

    def _values(self, u: Tensor, state: State | None) -> Tensor:
        """What is read of each position s: (B, T, D)."""
        if self.values == "token":
            return F.linear(u, self.w_a)
        start = 0 if state is None else state.start
        return rows_of(self.a, start, start + u.size(1), type(self).__name__).expand_as(u)

    def context(self, u: Tensor, state: State | None) -> Tensor:
        c, values = self.mean(u, state), self._values(u, state)
        q, k, v = (x.unsqueeze(2) for x in (c, u, values))  # one head of width D
        memory = None if state is None else state.get(self, "memory")  # Σ_s u_s A_sᵀ
        context, memory = scalar_decay(q, k, v, None, memory, chunk=CHUNK)
        if state is not None:
            state.set(self, "memory", memory)
        return context.squeeze(2) / u.size(-1)


class LinearMemoryLeak(GatedMean):
    """wr_9_log, as coded: c (uᵀA + b) sums over the whole sequence, so every position sees the future. A ∈ R^{T×D}.

    `scaled` divides both products by √D, which is what ran.
    """

    causal = False
    decodes = False

    def __init__(
        self, layer: Layer, scaled: bool = False, n: int = 2, random: bool = False, site: Place = "ffn"
    ) -> None:
        super().__init__(layer, n, random, site)
        self.a = matrix(layer.max_length, layer.width, std=0.02)
        self.b = bias(layer.width)
        self.scale = layer.width**-0.5 if scaled else 1.0

    def context(self, u: Tensor, state: State | None) -> Tensor:
        inner = (u.mT @ rows_of(self.a, 0, u.size(1), type(self).__name__) + self.b) * self.scale  # (B, D, D)
        return self.mean(u, state) @ inner * self.scale


class PastPooling(Mixing):
    """z = g u + (1−g) P with P_t = (a pooling of all u_s, s < t) W1ᵀ and P_0 = 0."""

    def __init__(self, layer: Layer, site: Place) -> None:
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

    def __init__(self, layer: Layer, site: Place = "ffn") -> None:
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

    def __init__(self, layer: Layer, site: Place = "ffn") -> None:
        super().__init__(layer, site)

    def pool(self, u: Tensor, state: State | None) -> Tensor:
        kept = None if state is None else state.get(self, "sum")
        sums = u.cumsum(dim=1) if kept is None else u.cumsum(dim=1) + kept[:, None]
        if state is not None:
            state.set(self, "sum", sums[:, -1].clone())
        start = 0 if state is None else state.start
        counts = torch.arange(start, start + u.size(1), device=u.device, dtype=u.dtype).clamp_(min=1)
        return (sums - u) / counts[:, None]


wr_7 = placed(
    DecayGate,
    "z = RMSNorm(a⊙u_{t−1} + √(1−a²)⊙i⊙u_t), RG-LRU's gates on the token before",
    as_logged=False,
    norm=True,
    n=None,
)


@placed
def wr_7_log(layer: Layer, norm: bool = False, site: Place = "ffn") -> DecayGate:
    """wr_7 as coded: r and i without σ, 1−a² without the root, Λ = −4.59, and the norm only if asked for."""
    return DecayGate(layer, as_logged=True, norm=norm, site=site)


@placed
def wr_7_1(layer: Layer, n: int = 2, norm: bool = True, site: Place = "ffn") -> DecayGate:
    """wr_7 with u_{t−1} replaced by wr_8_2's softmax mean over n tokens."""
    return DecayGate(layer, n=n, norm=norm, site=site)


@placed
def wr_7_1_log(layer: Layer, n: int = 2, norm: bool = True, site: Place = "ffn") -> DecayGate:
    """wr_7_1 on wr_7_log's gating: r and i without σ, 1−a² without the root, Λ = −4.59."""
    return DecayGate(layer, as_logged=True, n=n, norm=norm, site=site)


wr_7_2 = placed(GatedBranches)
wr_9 = placed(LinearMemory)
wr_9_log = placed(LinearMemoryLeak)
wr_attend = placed(PastAttention)
wr_mean = placed(PastMean)


class SecondOrder(ScoreMixing):
    """wr_attatt: attention's output (1−g) A V + g A (A V), g = σ(γ) in each head, γ from −4. A² is never formed."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.gamma = hint(nn.Parameter(torch.full((layer.num_heads,), -4.0)))
        self.heads: tuple[Tensor, Tensor] | None = None  # between the two halves of a pass

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        self.heads = q, k
        return super().forward(q, k, inputs, history, state)

    def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
        assert self.heads is not None, "attention has not taken place"
        q, k = self.heads
        self.heads = None
        # Every query head has attended to something else, so each is a value head of its own now.
        seen = heads if state is None else state.append(self, "attended", heads, dim=2)
        pattern = Factors((Term(q, k.repeat_interleave(q.size(1) // k.size(1), dim=1), query=q.size(-1) ** -0.5),))
        share = self.gamma.sigmoid().repeat_interleave(
            heads.size(1) // self.gamma.numel()
        )  # of several queries per head
        return torch.lerp(heads, attend(pattern, seen).to(heads.dtype), share[:, None, None].to(heads.dtype))

    def probes(self) -> dict[str, Tensor]:
        return {"second_order": self.gamma.sigmoid()}


wr_attatt = preset(SecondOrder)
