"""Projections, positions, attending with mixed scores, and the key/value cache."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import ConfigError
from zoo.extension import AttentionInputs, HeadMixing, Layer, ScoreMixing, TemporalMixing, is_plain, name_of, overrides
from zoo.history import Heads, History, Pattern, Projected
from zoo.kernels.attend import attend
from zoo.kernels.products import scaled_matrix
from zoo.kernels.rotary import heads_of
from zoo.kernels.shared_gradients import share_gradients
from zoo.model.norm import RMSNorm
from zoo.model.positions import Positions
from zoo.state import State


class Joined(NamedTuple):
    """Queries, keys and values side by side, in one tensor that nobody else reads."""

    product: Tensor  # (B, T, Σ counts · d)
    counts: tuple[int, int, int]  # of heads

    def apart(self, head_dim: int) -> tuple[Tensor, ...]:
        """Each as (B, T, its heads, d)."""
        return self.product.unflatten(-1, (-1, head_dim)).split(self.counts, dim=2)

    @classmethod
    def of(cls, heads: Projected, dtype: torch.dtype) -> Joined:
        """A copy of the heads, side by side; under autocast, what mixed them may be wider than they are."""
        q, k, v = heads
        product = torch.cat([x.to(dtype) for x in heads], dim=2).flatten(2)
        return cls(product, (q.size(2), k.size(2), v.size(2)))


class Attention(nn.Module):
    """Causal grouped-query attention: q, k, v by one product, positions, scores as the score mixing makes them."""

    def __init__(
        self,
        layer: Layer,
        score_mixing: ScoreMixing,
        head_mixing: HeadMixing,
        *,
        positions: Positions,
        qk_norm: bool,
        dropout: float,
        qkv_mixing: TemporalMixing | None = None,
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
        self.head_mixing = head_mixing
        self.mixes_qkv = (qkv_mixing,) if qkv_mixing is not None else ()  # a module of the block's, not of this one
        # Asked once, here: whoever overrides nothing pays nothing.
        self.mixes_projected = tuple(m for m in (head_mixing, score_mixing) if overrides(m, "project"))
        self.mixes_output = tuple(m for m in (score_mixing, head_mixing) if overrides(m, "output"))

    def forward(
        self, normed: AttentionInputs, inputs: AttentionInputs, history: History, state: State | None
    ) -> tuple[Tensor, Pattern]:
        """`normed` is what is projected; `inputs` the same before the norm, for score mixing."""
        joined, own = self.project(normed, history, state)
        for mixing in self.mixes_qkv:
            joined = self.mixed(mixing, joined, normed, state)
        q, k, v = self.placed(joined, state)  # (B, H, T, d), (B, Hkv, S, d)
        if history.reads & {"heads", "scores"}:  # later layers read them again, head by head
            q, k = share_gradients(q.contiguous(), k.contiguous())
            v = v.contiguous()
        view = history if is_plain(self.score_mixing) else history.read_by(self.score_mixing)
        scores = self.score_mixing(q, k, inputs, view, state)
        answer = attend(scores, v, self.dropout if self.training else 0.0)
        for heads in self.mixes_output:
            answer = heads.output(answer, normed, history.read_by(heads), state)
        if answer.size(1) != self.heads[0]:
            raise ConfigError(self._too_many(answer.size(1)))
        return self.join(answer), Pattern(scores, Heads(q, k), own)

    def project(
        self, normed: AttentionInputs, history: History, state: State | None
    ) -> tuple[Joined, Projected | None]:
        """Queries, keys and values of the new tokens after mixing; and as they were before it, for whoever reads that."""
        joined = Joined(self.product(normed), self.heads)
        if not self.mixes_projected and "projected" not in history.reads:
            return self.normalised(joined), None
        own = heads = Projected(*joined.apart(self.head_dim))
        for mixing in self.mixes_projected:
            heads = mixing.project(heads, normed, history.read_by(mixing), state)
        # A copy, even where nothing was mixed: turning is done in place, and layers above may read what there was.
        return self.normalised(Joined.of(heads, joined.product.dtype)), own

    def product(self, normed: AttentionInputs) -> Tensor:
        """Queries, keys and values side by side: (B, T, (H + 2 Hkv) d)."""
        if normed.query is normed.key is normed.value:
            return F.linear(normed.query, self.qkv)
        weights = self.qkv.split([n * self.head_dim for n in self.heads])
        return torch.cat([F.linear(x, w) for x, w in zip(normed, weights, strict=True)], dim=-1)

    def normalised(self, joined: Joined) -> Joined:
        """With queries and keys normed head by head, where the model has that."""
        if self.q_norm is None or self.k_norm is None:
            return joined
        q, k, v = joined.apart(self.head_dim)
        return Joined.of(Projected(self.q_norm(q), self.k_norm(k), v), v.dtype)

    def mixed(self, mixing: TemporalMixing, joined: Joined, u: AttentionInputs, state: State | None) -> Joined:
        """Queries, keys and values of the new tokens, mixed with the past."""
        if joined.counts != self.heads:
            raise ConfigError(
                f"{name_of(mixing)} mixes the joined queries, keys and values of {sum(self.heads)} heads, and"
                f" {' and '.join(map(name_of, self.mixes_projected))} leaves {sum(joined.counts)}"
            )
        # A copy: turning is done in place, and the mixing may keep what it was given, or what it answers.
        return joined._replace(product=mixing.inner(joined.product, u, state).clone())

    def placed(self, joined: Joined, state: State | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the new tokens, at their positions; keys and values of all so far."""
        start = state.start if state is not None else 0
        product, counts = joined
        table = self.positions.table(start, product.size(1), product.device)
        q, k, v = heads_of(product, counts, self.head_dim, table, turned=counts[0] + counts[1])
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

    def _too_many(self, heads: int) -> str:
        mixing = " and ".join(dict.fromkeys(map(name_of, (*self.mixes_projected, *self.mixes_output))))
        return (
            f"{mixing} leaves {heads} heads for an output projection of {self.heads[0]}: whoever adds query heads in"
            " `project` takes them back in `output`"
        )
