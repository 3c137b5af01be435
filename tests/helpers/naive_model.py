"""A model written out layer by layer in plain formulas; a test replaces the formula that its method replaces."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.extension import Extension
from zoo.model.language_model import LanguageModel
from zoo.model.positions import Rotary


class Naive:
    """The plain block on the weights of `built`; m counts layers from 1. Heads are (B, T, heads, d) throughout."""

    def __init__(self, built: LanguageModel, slot: str = "") -> None:
        self.built = built
        self.blocks = list(built.layers)
        self.layer = self.blocks[0].layer
        self.parts: list[Extension] = built.parts(slot) if slot else []
        self.streams: list[Tensor] = []  # x_1 … as each layer found it
        self.projected: list[tuple[Tensor, Tensor, Tensor]] = []  # of each layer, unmixed

    def logits(self, ids: Tensor) -> Tensor:
        self.ids, self.streams, self.projected = ids, [], []
        x = self.embedding(self.built.embed.weight[ids])
        for m in range(1, len(self.blocks) + 1):
            self.streams.append(x)
            x = self.block(m, x)
        return self.normed(self.last(x), self.built.norm.gain) @ self.built.output_weight().T

    def embedding(self, e: Tensor) -> Tensor:
        return e

    def last(self, x: Tensor) -> Tensor:
        return x

    def normed(self, x: Tensor, gain: Tensor) -> Tensor:
        return x / (x.square().mean(dim=-1, keepdim=True) + self.layer.norm_eps).sqrt() * gain

    def block(self, m: int, x: Tensor) -> Tensor:
        a = self.attention(m, self.n1(m, x))
        y = self.after(m, x, a)
        f = self.ffn(m, self.n2(m, x if self.layer.parallel else y))
        return self.after(m, y, f)

    def after(self, m: int, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch

    def n1(self, m: int, x: Tensor) -> Tensor:
        return self.normed(x, self.blocks[m - 1].attention_norm.gain)

    def n2(self, m: int, x: Tensor) -> Tensor:
        return self.normed(x, self.blocks[m - 1].ffn_norm.gain)

    def attention(self, m: int, u: Tensor) -> Tensor:
        attention = self.blocks[m - 1].attention
        q, k, v = (
            F.linear(u, w).unflatten(-1, (-1, self.layer.head_dim))
            for w in attention.qkv.split([n * self.layer.head_dim for n in attention.heads])
        )
        self.projected.append((q, k, v))
        q, k, v = self.heads(m, q, k, v, u)
        q, k = self.turned(m, q), self.turned(m, k)
        groups = q.size(2) // k.size(2)
        k, v = k.repeat_interleave(groups, dim=2), v.repeat_interleave(groups, dim=2)
        scores = torch.einsum("bthd,bshd->bhts", q, k) / self.layer.head_dim**0.5
        weights = self.weights(m, scores).tril()
        heads = self.output(m, torch.einsum("bhts,bshd->bthd", weights, v), u)
        return heads.flatten(2) @ attention.out.T

    def heads(self, m: int, q: Tensor, k: Tensor, v: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return q, k, v

    def turned(self, m: int, x: Tensor) -> Tensor:
        positions = self.blocks[m - 1].attention.positions
        if not isinstance(positions, Rotary):
            return x
        d = self.layer.head_dim
        speed = positions.theta ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
        angle = torch.arange(x.size(1), dtype=x.dtype)[:, None, None] * speed
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = [even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()]
        return torch.stack(turned, dim=-1).flatten(-2)

    def weights(self, m: int, scores: Tensor) -> Tensor:
        return masked(scores).softmax(dim=-1)

    def output(self, m: int, heads: Tensor, u: Tensor) -> Tensor:
        return heads

    def ffn(self, m: int, u: Tensor) -> Tensor:
        ffn = self.blocks[m - 1].ffn
        gate, up = self.inner(m, u @ ffn.gate_up.T, u).chunk(2, dim=-1)
        return (F.silu(gate) * up) @ ffn.down.T

    def inner(self, m: int, x: Tensor, u: Tensor) -> Tensor:
        return x


def masked(scores: Tensor) -> Tensor:
    """Scores (…, T, T) with −∞ where a key is ahead of its query."""
    return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))


def before(x: Tensor) -> Tensor:
    """x_{t−1}, and zeros before the first token: (B, T, …)."""
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
