"""The smallest method for each thing that the interface offers, and beside it the formula it stands for."""

from __future__ import annotations

import torch
from helpers.naive_model import Naive, masked
from torch import Tensor, nn

from zoo.extension import ATTENTION, AttentionInputs, HeadMixing, Layer, Residual, ScoreMixing, Site, hint
from zoo.history import History, Projected
from zoo.scores import Dense, Factors, Scores, Term, past_only
from zoo.state import State


def numbers(*shape: int, start: float = 0.0) -> nn.Parameter:
    return hint(nn.Parameter(torch.full(shape, start)))


class StreamSum(Residual):
    """Attention reads Σ_{i≤m} w_i x_i over the streams that the layers so far found."""

    reads = frozenset({"stream"})

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w = numbers(layer.number, start=1.0)

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor:
        if site != ATTENTION:
            return stream
        return sum(w * x for w, x in zip(self.w, history.streams, strict=True))


class NaiveStreamSum(Naive):
    def n1(self, m: int, x: Tensor) -> Tensor:
        return super().n1(m, sum(w * x for w, x in zip(self.parts[m - 1].w, self.streams, strict=True)))


class PairOfStreams(Residual):
    """Sublayers read x + w s, where s is the embedding and twice every branch: a stream of two tensors."""

    widens = True

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w = numbers(1)

    def open(self, embedding: Tensor) -> tuple[Tensor, Tensor]:
        return embedding, embedding

    def close(self, stream: tuple[Tensor, Tensor]) -> Tensor:
        return stream[0]

    def read(self, site: Site, stream: tuple[Tensor, Tensor], history: History) -> Tensor:
        x, s = stream
        return x + self.w * s

    def write(
        self, site: Site, stream: tuple[Tensor, Tensor], branch: Tensor, history: History
    ) -> tuple[Tensor, Tensor]:
        x, s = stream
        return x + branch, s + 2 * branch


class NaivePairOfStreams(Naive):
    def seen(self, m: int, x: Tensor) -> Tensor:
        return x + self.parts[m - 1].w * (2 * x - self.streams[0])

    def n1(self, m: int, x: Tensor) -> Tensor:
        return super().n1(m, self.seen(m, x))

    def n2(self, m: int, x: Tensor) -> Tensor:
        return super().n2(m, self.seen(m, x))


class TokenTable(HeadMixing):
    """v + E[token], a table of its own for each layer."""

    reads = frozenset({"tokens"})

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.table = numbers(layer.vocab_size, layer.num_kv_heads, layer.head_dim)

    def project(self, heads: Projected, normed: AttentionInputs, history: History, state: State | None) -> Projected:
        return heads._replace(v=heads.v + self.table[history.tokens])


class NaiveTokenTable(Naive):
    def heads(self, m: int, q: Tensor, k: Tensor, v: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return q, k, v + self.parts[m - 1].table[self.ids]


class FirstValues(HeadMixing):
    """v_m ← λ v_m + μ v_1."""

    reads = frozenset({"projected"})

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.shares = numbers(2, start=0.5)
        self.idle = frozenset(() if layer.index else {"shares"})

    def project(self, heads: Projected, normed: AttentionInputs, history: History, state: State | None) -> Projected:
        if not history.projected:
            return heads
        return heads._replace(v=self.shares[0] * heads.v + self.shares[1] * history.projected[0].v)


class NaiveFirstValues(Naive):
    def heads(self, m: int, q: Tensor, k: Tensor, v: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        own, first = self.parts[m - 1].shares
        return q, k, v if m == 1 else own * v + first * self.projected[0][2]


class GatedOutput(HeadMixing):
    """O_h ← σ(x̃ W)_h O_h."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.gate = numbers(layer.width, layer.num_heads)

    def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
        return heads * torch.sigmoid(normed.query @ self.gate).mT.unsqueeze(-1)


class NaiveGatedOutput(Naive):
    def output(self, m: int, heads: Tensor, u: Tensor) -> Tensor:
        return heads * torch.sigmoid(u @ self.parts[m - 1].gate).unsqueeze(-1)


class TwiceTheQueries(HeadMixing):
    """A second query −a_h q_h beside each q_h on the same key head; O_h = A V − b_h A′ V."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.a, self.b = numbers(layer.num_heads, 1, start=0.5), numbers(layer.num_heads, start=0.5)

    def project(self, heads: Projected, normed: AttentionInputs, history: History, state: State | None) -> Projected:
        return heads._replace(q=torch.stack([heads.q, -self.a * heads.q], dim=3).flatten(2, 3))

    def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
        one, other = heads.unflatten(1, (-1, 2)).unbind(dim=2)
        return one - self.b[:, None, None] * other


class NaiveTwiceTheQueries(Naive):
    def weights(self, m: int, scores: Tensor) -> Tensor:
        part = self.parts[m - 1]
        second = masked(-part.a[:, :, None] * scores).softmax(dim=-1)
        return masked(scores).softmax(dim=-1) - part.b[:, None, None] * second


class MixedWeights(ScoreMixing):
    """A ← W A over heads, after the softmax; its answer is weighted by g per head."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w = hint(nn.Parameter(torch.eye(layer.num_heads)))
        self.g = numbers(layer.num_heads, 1, 1, start=1.0)

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        k = k.repeat_interleave(q.size(1) // k.size(1), dim=1)

        def block(first: int, last: int, keys: int) -> Tensor:
            logits = q[:, :, first:last] @ k[:, :, :keys].mT * q.size(-1) ** -0.5
            own = past_only(logits).softmax(dim=-1)
            return torch.einsum("gh,bhts->bgts", self.w, own) + 1.0  # the future counts 0, whatever is said of it

        return Dense(block, q.size(2), k.size(2), weights=True)

    def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
        return self.g * heads


class NaiveMixedWeights(Naive):
    def weights(self, m: int, scores: Tensor) -> Tensor:
        return torch.einsum("gh,bhts->bgts", self.parts[m - 1].w, super().weights(m, scores)) + 1.0

    def output(self, m: int, heads: Tensor, u: Tensor) -> Tensor:
        return heads * self.parts[m - 1].g[:, 0]


class Sink(ScoreMixing):
    """A null logit z_h that carries no value; with `twice`, the scores as two terms."""

    def __init__(self, layer: Layer, twice: bool = False) -> None:
        super().__init__()
        self.twice = twice
        self.z = numbers(layer.num_heads, 1, 1)

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        scale = q.size(-1) ** -0.5
        terms = (Term(q, k, query=0.25 * scale), Term(q, k, query=0.75 * scale))
        return Factors(terms if self.twice else (Term(q, k, query=scale),), null=self.z)


class NaiveSink(Naive):
    def weights(self, m: int, scores: Tensor) -> Tensor:
        e = masked(scores).exp()
        return e / (self.parts[m - 1].z.exp() + e.sum(dim=-1, keepdim=True))
