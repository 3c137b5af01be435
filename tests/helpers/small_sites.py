"""The smallest methods at sites, without norms or positions, and in some layers only; beside each its formula."""

from __future__ import annotations

import torch
from helpers.naive_model import Naive, before
from helpers.small_methods import numbers
from torch import Tensor

from zoo.extension import ATTENTION, AttentionInputs, Extension, Layer, Residual, ScoreMixing, Site, TemporalMixing
from zoo.functional import rms_norm
from zoo.history import Heads, History
from zoo.scores import Factors, Scores, Term
from zoo.state import State
from zoo.sums import previous


class PostNorm(Residual):
    """x ← N(x + F(x)), with no norm before F; attention's v and both matrices of its output start smaller."""

    prenorm = False

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.gains = numbers(2, layer.width, start=1.0)
        self.eps = layer.norm_eps
        self.start_scale = {"v": 0.5, "out": 0.25, "up": 2.0}

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        return rms_norm(stream + branch, self.gains[int(site != ATTENTION)], self.eps)


class NaivePostNorm(Naive):
    def block(self, m: int, x: Tensor) -> Tensor:
        first, second = self.parts[m - 1].gains
        y = self.normed(x + self.attention(m, x), first)
        return self.normed(y + self.ffn(m, x if self.layer.parallel else y), second)


class Unturned(ScoreMixing):
    """S + b_h · (position of the key), without rotary positions."""

    rotary = False

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.b = numbers(layer.num_heads, 1, 1, start=0.1)

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        places = torch.zeros_like(k)
        places[..., 0] = torch.arange(k.size(2), dtype=k.dtype)
        ones = torch.zeros_like(q)
        ones[..., 0] = 1.0
        return Factors((Term(q, k, query=q.size(-1) ** -0.5), Term(ones, places, query=self.b)))


class NaiveUnturned(Naive):
    def weights(self, m: int, scores: Tensor) -> Tensor:
        places = torch.arange(scores.size(-1), dtype=scores.dtype)
        return super().weights(m, scores + self.parts[m - 1].b * places)


class Shift(TemporalMixing):
    """u_t + w ⊙ u_{t−1}, for any width, at any site; inside a sublayer, w is multiplied by the mean of its input."""

    def __init__(self, width: int, site: str = "ffn") -> None:
        super().__init__()
        self.w = numbers(width)
        self.site = site

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return u + self.w * previous(self, u, state)

    def inner(self, x: Tensor, u: Tensor | AttentionInputs, state: State | None) -> Tensor:
        one = u if isinstance(u, Tensor) else u.query
        return x + one.mean(dim=-1, keepdim=True) * self.w * previous(self, x, state)


class Shifts(TemporalMixing):
    """`Shift` at four sites of every layer, at the embedding and at the output."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.shifts = torch.nn.ModuleDict(
            {
                "attention_input": Shift(layer.width),
                "qkv": Shift((layer.num_heads + 2 * layer.num_kv_heads) * layer.head_dim),
                "ffn": Shift(layer.width),
                "ffn_inner": Shift(2 * layer.ffn_dim),
            }
        )
        if layer.index == 0:
            self.shifts["embedding"] = Shift(layer.width)
        if layer.number == layer.num_layers:
            self.shifts["output"] = Shift(layer.width)

    def at(self, site: str) -> TemporalMixing | None:
        return dict(self.shifts.items()).get(site)


class NaiveShifts(Naive):
    def shifted(self, m: int, site: str, x: Tensor, u: Tensor | None = None) -> Tensor:
        weight = self.parts[m - 1].shifts[site].w
        return x + (1.0 if u is None else u.mean(dim=-1, keepdim=True)) * weight * before(x)

    def embedding(self, e: Tensor) -> Tensor:
        return self.shifted(1, "embedding", e)

    def last(self, x: Tensor) -> Tensor:
        return self.shifted(len(self.parts), "output", x)

    def n1(self, m: int, x: Tensor) -> Tensor:
        return self.shifted(m, "attention_input", super().n1(m, x))

    def n2(self, m: int, x: Tensor) -> Tensor:
        return self.shifted(m, "ffn", super().n2(m, x))

    def heads(self, m: int, q: Tensor, k: Tensor, v: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        joined = self.shifted(m, "qkv", torch.cat([q, k, v], dim=2).flatten(2), u)
        q, k, v = joined.unflatten(-1, (-1, self.layer.head_dim)).split([q.size(2), k.size(2), v.size(2)], dim=2)
        return q, k, v

    def inner(self, m: int, x: Tensor, u: Tensor) -> Tensor:
        return self.shifted(m, "ffn_inner", x, u)


class ThreeInputs(TemporalMixing):
    """Query, key and value read u_t + w_i ⊙ u_{t−1}, each with weights of its own."""

    site = "attention_input"

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w = numbers(3, layer.width)

    def forward(self, u: Tensor, state: State | None) -> AttentionInputs:
        past = previous(self, u, state)
        return AttentionInputs(*(u + w * past for w in self.w))


class NaiveThreeInputs(Naive):
    def attention(self, m: int, u: Tensor) -> Tensor:
        self.parted = [u + w * before(u) for w in self.parts[m - 1].w]
        return super().attention(m, u)

    def heads(self, m: int, q: Tensor, k: Tensor, v: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        attention = self.blocks[m - 1].attention
        weights = attention.qkv.split([n * self.layer.head_dim for n in attention.heads])
        return tuple(
            (x @ w.T).unflatten(-1, (-1, self.layer.head_dim)) for x, w in zip(self.parted, weights, strict=True)
        )


def every_other(layer: Layer) -> TemporalMixing:
    """`Shift` in attention's place in the first, third … layer; nothing in the others."""
    return TemporalMixing() if layer.index % 2 else Shift(layer.width, "attention")


class NaiveEveryOther(Naive):
    def attention(self, m: int, u: Tensor) -> Tensor:
        return super().attention(m, u) if m % 2 == 0 else u + self.parts[m - 1].w * before(u)


class ScoreSum(ScoreMixing):
    """S = Σ_{i≤m} w_i q_i k_iᵀ / √d over the layers that attend."""

    reads = frozenset({"heads"})

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w = numbers(layer.number, start=1.0)

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        heads, scale = (*history.heads, Heads(q, k)), q.size(-1) ** -0.5
        return Factors(tuple(Term(*each, query=w * scale) for each, w in zip(heads, self.w, strict=True)))


class NaiveScoreSum(NaiveEveryOther):
    def logits(self, ids: Tensor) -> Tensor:
        self.sums: list[Tensor] = []
        return super().logits(ids)

    def weights(self, m: int, scores: Tensor) -> Tensor:
        self.sums.append(scores)
        score: Extension = self.blocks[m - 1].attention.score_mixing
        return super().weights(m, sum(w * s for w, s in zip(score.w, self.sums, strict=True)))
