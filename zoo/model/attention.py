"""Projections, positions, attending with mixed scores, and the key/value cache."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.extension import AttentionInputs, Layer, ScoreMixing, is_plain
from zoo.history import Heads, History, Pattern
from zoo.kernels.attend import attend
from zoo.kernels.products import scaled_matrix
from zoo.kernels.rotary import heads_of
from zoo.kernels.shared_gradients import share_gradients
from zoo.model.norm import RMSNorm
from zoo.model.positions import Positions
from zoo.state import State


class Attention(nn.Module):
    """Causal grouped-query attention: q, k, v by one product, positions, scores as the score mixing makes them."""

    def __init__(
        self, layer: Layer, score_mixing: ScoreMixing, *, positions: Positions, qk_norm: bool, dropout: float
    ) -> None:
        super().__init__()
        self.heads = (layer.num_heads, layer.num_kv_heads, layer.num_kv_heads)
        self.head_dim = layer.head_dim
        self.dropout = dropout
        self.positions = positions
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
            q, k = share_gradients(q.contiguous(), k.contiguous())
            v = v.contiguous()
        if not is_plain(self.score_mixing):
            history = history.read_by(self.score_mixing)
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
        table = self.positions.table(start, joined.size(1), joined.device)
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
        return F.linear(heads.transpose(1, 2).flatten(2), scaled_matrix(self.out, weight))
