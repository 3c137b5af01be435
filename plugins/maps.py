"""Attention maps: heads that talk to each other, differences of maps, and maps without a softmax.

With S the logits of all heads and A = softmax(mask(S)), both H × T × T:

    talking_heads         A ← W softmax(mask(P S)), P and W over heads                        (arXiv 2003.02436)
    differential          A_i ← A_{2i} − λ A_{2i+1}, for both values of the pair, then a norm    (arXiv 2410.05258)
    sigmoid_attention     A ← σ(S + b)                                                        (arXiv 2409.04431)
    selective_attention   S_ij ← S_ij − Σ_{l<i} ReLU(S_lj of the first head)                  (arXiv 2410.02703)

None of them factors: they are made a block of rows at a time, and made again in backward.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from zoo_plugins.v4 import scores_of

from zoo.errors import ZooError
from zoo.extension import AttentionInputs, Layer, ScoreMixing, hint, preset
from zoo.functional import rms_norm
from zoo.history import History
from zoo.scores import Dense, Scores, past_only
from zoo.state import State

ZOO_API = (1, 2)


def rows_of(q: Tensor, k: Tensor, first: int, last: int, seen: int) -> Tensor:
    """Rows of q kᵀ / √d: (B, H, last − first, seen)."""
    return scores_of(q[:, :, first:last] * q.size(-1) ** -0.5, k[:, :, :seen])


def over_heads(matrix: Tensor, maps: Tensor) -> Tensor:
    """Σ_g matrix[h, g] maps_g. Of several queries that a head was given, each meets those in its place."""
    heads = maps.unflatten(1, (matrix.size(0), -1))
    return torch.einsum("hg,bgnts->bhnts", matrix.to(maps.dtype), heads).flatten(1, 2)


class TalkingHeads(ScoreMixing):
    """A ← W softmax(mask(P S)): heads mix their logits, their maps, or both. P and W from the identity."""

    def __init__(self, layer: Layer, pre: bool, post: bool) -> None:
        super().__init__()
        self.p = hint(nn.Parameter(torch.eye(layer.num_heads)), decay=False) if pre else None
        self.w = hint(nn.Parameter(torch.eye(layer.num_heads)), decay=False) if post else None

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        def block(first: int, last: int, seen: int) -> Tensor:
            scores = rows_of(q, k, first, last, seen)
            if self.p is not None:
                scores = over_heads(self.p, scores)
            return scores if self.w is None else over_heads(self.w, past_only(scores).softmax(dim=-1))

        return Dense(block, q.size(2), k.size(2), weights=self.w is not None)

    def probes(self) -> dict[str, Tensor]:
        matrices = {"logits": self.p, "maps": self.w}
        return {f"own_head_{name}": m.diagonal().mean() for name, m in matrices.items() if m is not None}


class Differential(ScoreMixing):
    """A_i = softmax(S_{2i}) − λ softmax(S_{2i+1}), O_i = (1 − λ0) RMSNorm(A_i [V_{2i}, V_{2i+1}]).

    λ = exp(λ_q1·λ_k1) − exp(λ_q2·λ_k2) + λ0, λ0 = .8 − .6 exp(−.3 (m − 1)). Where key heads are shared, pairs of heads share
    pairs of value heads.
    """

    EPS = 1e-5

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        for name, count in (("heads", layer.num_heads), ("key heads", layer.num_kv_heads)):
            if count % 2:
                raise ZooError(
                    f"differential attention pairs heads, and the model has {count} {name}: take an even number of them,"
                    " by model.head_dim and model.num_kv_heads"
                )
        self.heads, self.groups = layer.num_heads, layer.num_heads // layer.num_kv_heads
        self.lambda_0 = 0.8 - 0.6 * math.exp(-0.3 * layer.index)
        # λ_q1, λ_k1, λ_q2, λ_k2
        self.lambdas = hint(nn.Parameter(torch.randn(4, layer.head_dim) * 0.1), decay=False)
        self.gain = hint(nn.Parameter(torch.ones(2 * layer.head_dim)), decay=False)

    def share(self) -> Tensor:
        """λ."""
        q1, k1, q2, k2 = self.lambdas.unbind()
        return (q1 * k1).sum().exp() - (q2 * k2).sum().exp() + self.lambda_0

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        share = self.share()

        def block(first: int, last: int, seen: int) -> Tensor:
            maps = past_only(rows_of(q, k, first, last, seen)).softmax(dim=-1)
            maps = maps.unflatten(1, (self.heads // 2, 2, -1))  # pairs, and what queries each head was given
            joint = maps[:, :, 0] - share * maps[:, :, 1]
            # Attending gives the value heads 2p and 2p+1 a group of maps each: those of the pairs that share them.
            pairs = joint.unflatten(1, (-1, 1, self.groups))
            return pairs.expand(-1, -1, 2, -1, -1, -1, -1).flatten(1, 4)

        return Dense(block, q.size(2), k.size(2), weights=True)

    def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
        # (B, pairs of value heads, 2, groups, queries, T, d): a pair's two answers side by side, and back as heads
        apart = heads.unflatten(1, (-1, 2, self.groups, heads.size(1) // self.heads)).permute(0, 1, 3, 4, 5, 2, 6)
        wide = (1 - self.lambda_0) * rms_norm(apart.flatten(5), self.gain, self.EPS)
        return wide.unflatten(5, (2, -1)).permute(0, 1, 2, 5, 3, 4, 6).flatten(1, 4)

    def probes(self) -> dict[str, Tensor]:
        return {"lambda": self.share()}


class SigmoidAttention(ScoreMixing):
    """A = σ(S + b) for the keys seen, b = −ln(max_length) unless given: every key by itself."""

    def __init__(self, layer: Layer, bias: float | None = None) -> None:
        super().__init__()
        self.bias = -math.log(layer.max_length) if bias is None else bias

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        def block(first: int, last: int, seen: int) -> Tensor:
            return torch.sigmoid(rows_of(q, k, first, last, seen) + self.bias)

        return Dense(block, q.size(2), k.size(2), weights=True)


class SelectiveAttention(ScoreMixing):
    """S ← S − F, F_ij = Σ_{l<i} G_lj, G_ij = ReLU(S_ij of the first head) for 0 < j < i, else 0.

    A token may say that an earlier one is no longer needed; never the first token, nor itself.
    """

    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        masked = self.sums(rows_of(q[:, :1], k[:, :1], 0, q.size(2), k.size(2)).squeeze(1), state)

        def block(first: int, last: int, seen: int, table: Tensor) -> Tensor:
            return rows_of(q, k, first, last, seen) - table[..., :seen]

        return Dense(block, q.size(2), k.size(2), (masked.unsqueeze(1),))

    def sums(self, scores: Tensor, state: State | None) -> Tensor:
        """F (B, T, S), from the first head's logits."""
        rows, keys = scores.shape[1:]
        marks = scores.relu().tril(keys - rows - 1)  # a token does not mark itself
        marks = torch.cat([torch.zeros_like(marks[..., :1]), marks[..., 1:]], dim=-1)  # nor the first
        sums = marks.cumsum(dim=1)
        before = state.get(self, "sums") if state is not None else None
        if before is not None:
            sums = sums + nn.functional.pad(before, (0, keys - before.size(-1))).unsqueeze(1)
        if state is not None:
            state.set(self, "sums", sums[:, -1].clone())
        return sums - marks  # each row without its own


talking_heads = preset(TalkingHeads, "A ← W softmax(mask(P S))", starts_as="baseline", pre=True, post=True)
talking_heads_pre = preset(TalkingHeads, "A = softmax(mask(P S))", starts_as="baseline", pre=True, post=False)
talking_heads_post = preset(TalkingHeads, "A ← W softmax(mask(S))", starts_as="baseline", pre=False, post=True)
differential = preset(Differential)
sigmoid_attention = preset(SigmoidAttention)
selective_attention = preset(SelectiveAttention)
