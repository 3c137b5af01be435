"""Projections, rotary positions, attending with mixed scores, and the key/value cache."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.extension import AttentionInputs, Layer, ScoreMixing
from zoo.functional import heads_of, rms_norm, rotary_table
from zoo.gather import gather
from zoo.history import Heads, History, Pattern
from zoo.scores import attend
from zoo.state import State


class RMSNorm(nn.Module):
    """x / √(mean x² + ε) · gain."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.gain, self.eps)


def times(matrix: Tensor, weight: Tensor | None) -> Tensor:
    """A projection whose output is to be weighted: on the matrix the weight costs less than on the output."""
    return matrix if weight is None else matrix * weight


@functools.lru_cache(maxsize=16)
def _table(room: int, head_dim: int, theta: float, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # the table outlives the pass that makes it, and training may come next
        return rotary_table(room, head_dim, theta).to(device)


def rotary(start: int, length: int, head_dim: int, theta: float, device: torch.device) -> Tensor:
    """The rotary table of the positions start … start + length − 1."""
    room = 1 << (start + length - 1).bit_length()  # tables are shared by layers and lengths
    return _table(room, head_dim, theta, device)[start : start + length]


class Attention(nn.Module):
    """Causal grouped-query attention: q, k, v by one product, rotary positions, scores as the score mixing makes them."""

    def __init__(
        self, layer: Layer, score_mixing: ScoreMixing, *, qk_norm: bool, dropout: float, rope_theta: float
    ) -> None:
        super().__init__()
        self.heads = (layer.num_heads, layer.num_kv_heads, layer.num_kv_heads)
        self.head_dim = layer.head_dim
        self.dropout = dropout
        self.rope_theta = rope_theta
        self.qkv = nn.Parameter(torch.empty(sum(self.heads) * layer.head_dim, layer.width))
        self.out = nn.Parameter(torch.empty(layer.width, layer.num_heads * layer.head_dim))
        self.q_norm = RMSNorm(layer.head_dim, layer.norm_eps) if qk_norm else None
        self.k_norm = RMSNorm(layer.head_dim, layer.norm_eps) if qk_norm else None
        self.score_mixing = score_mixing

    def forward(
        self, normed: Tensor | AttentionInputs, inputs: AttentionInputs, history: History, state: State | None
    ) -> tuple[Tensor, Pattern]:
        """`normed` is what is projected; `inputs` the same before the norm, for score mixing."""
        q, k, v = self.project(normed, state)  # (B, H, T, d), (B, Hkv, S, d)
        if history.reads & {"heads", "scores"}:  # later layers read them again, head by head
            q, k = gather(q.contiguous(), k.contiguous())
            v = v.contiguous()
        scores = self.score_mixing(q, k, inputs, history, state)
        return self.join(attend(scores, v, self.dropout if self.training else 0.0)), Pattern(scores, Heads(q, k))

    def project(self, normed: Tensor | AttentionInputs, state: State | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the new tokens; keys and values of all so far."""
        if isinstance(normed, AttentionInputs):
            weights = self.qkv.split([n * self.head_dim for n in self.heads])
            joined = torch.cat([F.linear(x, w) for x, w in zip(normed, weights, strict=True)], dim=-1)
        else:
            joined = F.linear(normed, self.qkv)
        if self.q_norm is not None and self.k_norm is not None:
            q, k, v = joined.unflatten(-1, (-1, self.head_dim)).split(self.heads, dim=2)
            joined = torch.cat([self.q_norm(q), self.k_norm(k), v], dim=2).flatten(2)
        start = state.start if state is not None else 0
        table = rotary(start, joined.size(1), self.head_dim, self.rope_theta, joined.device)
        q, k, v = heads_of(joined, self.heads, self.head_dim, table, turned=self.heads[0] + self.heads[1])
        if state is not None:
            k, v = state.append(self, "k", k, dim=2), self.keep_values(v, state)
        return q, k, v

    def values(self, normed: Tensor, state: State | None) -> Tensor:
        """Values alone, of an input that is not this layer's own: (B, Hkv, S, d)."""
        v = F.linear(normed, self.value_weight()).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        return self.keep_values(v, state)

    def value_weight(self) -> Tensor:
        return self.qkv[-self.heads[2] * self.head_dim :]

    def keep_values(self, v: Tensor, state: State | None) -> Tensor:
        return v if state is None else state.append(self, "v", v, dim=2)

    def join(self, heads: Tensor, weight: Tensor | None = None) -> Tensor:
        """(B, H, T, d) → (B, T, D), times a weight."""
        return F.linear(heads.transpose(1, 2).flatten(2), times(self.out, weight))
