"""Scores: a null logit, positions and forgetting as biases of keys, and logits scaled by length or by their angle.

With S_ij = q_i·k_j / √d, the logits of head h before the mask:

    attention_sink      softmax over [z_h, S_i:], the weight of z dropped
    alibi               S_ij − m_h (i − j), no other positions                  (arXiv 2108.12409)
    fox                 S_ij + Σ_{l=j+1..i} log f_l, f = σ(x̃ W_f + b_f)_h       (arXiv 2503.02130)
    ssmax               s_h log(n_i) S_ij, n_i the keys that row i sees         (arXiv 2501.19399)
    cosine_attention    τ_h cos(q_i, k_j)                                       (arXiv 2010.04245)

A bias is the same for a whole row up to a number that softmax does not see, so it is a few more channels of queries and keys.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.extension import AttentionInputs, Layer, ScoreMixing, hint, preset
from zoo.history import History
from zoo.scores import Factors, Scores, Term
from zoo.state import State

ZOO_API = (1, 2)


def plain(q: Tensor, k: Tensor) -> Term:
    """q kᵀ / √d."""
    return Term(q, k, query=q.size(-1) ** -0.5)


def for_queries(of_heads: Tensor, q: Tensor) -> Tensor:
    """Values per head (H, …) repeated for the query heads: several that another method gave to one head share its value."""
    times = q.size(1) // of_heads.size(0)
    return of_heads if times == 1 else of_heads.repeat_interleave(times, dim=0)


class Sink(ScoreMixing):
    """A_ij = e^{S_ij} / (e^{z_h} + Σ_j e^{S_ij}): a row may attend to less than its whole past."""

    def __init__(self, layer: Layer, learned: bool) -> None:
        super().__init__()
        self.z = hint(nn.Parameter(torch.zeros(layer.num_heads)), decay=False) if learned else None

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        null = q.new_zeros(1, 1, 1) if self.z is None else for_queries(self.z, q)[:, None, None]
        return Factors((plain(q, k),), null=null)

    def probes(self) -> dict[str, Tensor]:
        return {} if self.z is None else {"null_logit": self.z}


def slopes(count: int) -> list[float]:
    """m_h = 2^{−8h/H}; else those of the next lower power of two, then every second one of the doubled power."""
    power = 2 ** (count.bit_length() - 1)
    own = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2.0 ** (-4 * h / power) for h in range(1, 2 * power, 2)]
    return own + between[: count - power]


class Alibi(ScoreMixing):
    """S_ij + m_h j: what is further away counts less, by a slope of its own in every head."""

    rotary = False
    STEP = 128  # positions are counted in steps and a rest, which small floating-point types hold exactly

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        steps = torch.tensor(slopes(layer.num_heads))[:, None, None] * torch.tensor([float(self.STEP), 1.0])
        self.register_buffer("slopes", steps, persistent=False)  # (H, 1, 2)

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        (batch, heads, rows, _), (_, kv_heads, keys, _) = q.shape, k.shape
        back = torch.arange(1 - keys, 1, device=k.device)  # of each key, from the last one
        rest = back.remainder(self.STEP)
        position = torch.stack([(back - rest) // self.STEP, rest], dim=-1).to(k.dtype)  # (S, 2)
        of_query = for_queries(self.slopes, q).to(q.dtype).expand(batch, heads, rows, 2)
        return Factors((plain(q, k), Term(of_query, position.expand(batch, kv_heads, keys, 2))))


class Fox(ScoreMixing):
    """S_ij − c_j with c_i = Σ_{l≤i} log f_l: every head forgets, by a gate that the token sets."""

    rotary = False

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w_f = nn.Parameter(torch.randn(layer.width, layer.num_heads) * 0.02)
        self.b_f = hint(nn.Parameter(torch.zeros(layer.num_heads)), decay=False)

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        normed = history.current.block.attention_norm(inputs.key)
        forgotten = self.forgotten(normed, state)  # (B, S, H)
        kv_heads, groups = k.size(1), self.b_f.size(0) // k.size(1)
        of_key = forgotten.unflatten(-1, (kv_heads, groups)).transpose(1, 2)  # (B, Hkv, S, groups)
        parts = split(-of_key, k.dtype)
        # A query head picks its own channel among those of its key head.
        own = torch.eye(groups, dtype=q.dtype, device=q.device).repeat(kv_heads, len(parts))
        of_query = for_queries(own, q)[:, None].expand(q.size(0), -1, q.size(2), -1)  # (B, H, T, channels)
        return Factors((plain(q, k), Term(of_query, torch.cat(parts, dim=-1))))

    def forgotten(self, normed: Tensor, state: State | None) -> Tensor:
        """c of all tokens so far, in float32 at least: it grows with the length."""
        logits = normed @ self.w_f + self.b_f
        log_f = F.logsigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))
        self.watch("forget_gate", log_f.exp())
        c = log_f.cumsum(dim=1)
        if state is None:
            return c
        before = state.get(self, "forgotten")
        return state.append(self, "forgotten", c if before is None else before[:, -1:] + c, dim=1)

    def probes(self) -> dict[str, Tensor]:
        return {"forget_bias": self.b_f}


def split(x: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """x as a sum of tensors of `dtype`: itself, or three of a small floating-point type."""
    if torch.finfo(dtype).bits >= 32:
        return [x.to(dtype)]
    parts = []
    for _ in range(3):
        parts.append(x.to(dtype))
        x = x - parts[-1].to(x.dtype)
    return parts


class Ssmax(ScoreMixing):
    """S_ij ← s_h log(n_i) S_ij: attention keeps its sharpness as more keys come. s = 1 / mean of log n at the start."""

    def __init__(self, layer: Layer, start: float | None = None) -> None:
        super().__init__()
        if start is None:
            mean = math.lgamma(layer.max_length + 1) / layer.max_length  # of log n for n = 1 … max_length
            start = 1 / mean if mean else 1.0
        self.s = hint(nn.Parameter(torch.full((layer.num_heads,), start)), decay=False)

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        rows, keys = q.size(2), k.size(2)
        seen = torch.arange(keys - rows + 1, keys + 1, device=q.device, dtype=self.s.dtype)
        scale = for_queries(self.s, q)[:, None, None] * seen.log()[:, None]  # (H, T, 1)
        return Factors((Term(q, k, query=scale * q.size(-1) ** -0.5),))

    def probes(self) -> dict[str, Tensor]:
        return {"scale": self.s}


class CosineAttention(ScoreMixing):
    """S_ij = τ_h cos(q_i, k_j), τ = e^{log τ} up to `cap`; without `norm`, τ_h on the plain logits, from 1."""

    def __init__(self, layer: Layer, norm: bool = True, start: float = 10.0, cap: float = 100.0) -> None:
        super().__init__()
        if not 0 < start <= cap:
            raise ValueError(f"start = {start}: a temperature is above 0 and at most cap = {cap}")
        self.norm, self.log_cap = norm, math.log(cap)
        log_start = math.log(start) if norm else 0.0
        self.log_tau = hint(nn.Parameter(torch.full((layer.num_heads,), log_start)), decay=False)
        if not norm:
            self.starts_as = "baseline"

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        tau = for_queries(self.temperature(), q)[:, None, None]
        if not self.norm:
            return Factors((Term(q, k, query=tau * q.size(-1) ** -0.5),))
        return Factors((Term(F.normalize(q, dim=-1), F.normalize(k, dim=-1), query=tau),))

    def temperature(self) -> Tensor:
        return self.log_tau.clamp(max=self.log_cap).exp()

    def probes(self) -> dict[str, Tensor]:
        return {"temperature": self.temperature()}


attention_sink = preset(Sink, "A_ij = e^{S_ij} / (e^{z_h} + Σ_j e^{S_ij}), z learned from 0", learned=True)
softmax_one = preset(Sink, "A_ij = e^{S_ij} / (1 + Σ_j e^{S_ij})", learned=False)
alibi = preset(Alibi)
fox = preset(Fox)
ssmax = preset(Ssmax)
cosine_attention = preset(CosineAttention)
