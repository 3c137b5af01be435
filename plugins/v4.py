"""Version 4: attention scores are sums over the layers so far (several groups of Z nodes; RealFormer, arXiv 2012.11747).

    P_i = Q_i K_iᵀ,   S_m = Σ_{i≤m} (weights) P_i,   A_m = softmax(mask(S_m))

Scores are carried unmasked and masked last. All but the T×T weights of 1A factor into concatenated queries and keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.extension import AttentionInputs, Layer, ScoreMixing, hint, preset
from zoo.functional import normed_product
from zoo.history import Heads, History
from zoo.scores import Dense, Factors, Scores, Term
from zoo.state import State


class ScoreSum(ScoreMixing):
    """S_m = Σ_{i≤m} s_{mi} P_i, with s_{mi} given by `scales`."""

    reads = frozenset({"heads"})

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.m = layer.number
        self.d = layer.head_dim

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        heads = (*history.heads, Heads(q, k))
        return Factors(tuple(Term(q, k, query=s) for (q, k), s in zip(heads, self.scales(), strict=True)))

    def scales(self) -> Sequence[float | Tensor]:
        """s_{m1} … s_{mm}."""
        raise NotImplementedError


class FixedScale(ScoreSum):
    """S_m = Σ P_i / (√d · m^power)."""

    def __init__(self, layer: Layer, power: float) -> None:
        super().__init__(layer)
        self.power = power

    def scales(self) -> Sequence[float]:
        return [self.d**-0.5 * self.m**-self.power] * self.m


class LearnedScale(ScoreSum):
    """S_m = Σ P_i / (d^a · m^b), from a = ½, b = 1, of free sign."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.a = hint(nn.Parameter(torch.tensor(0.5)))
        self.b = hint(nn.Parameter(torch.tensor(1.0)))
        self.idle = frozenset({"b"} if self.m == 1 else ())  # 1^b

    def scales(self) -> Sequence[Tensor]:
        return [torch.exp(-self.a * math.log(self.d) - self.b * math.log(self.m))] * self.m

    def probes(self) -> dict[str, Tensor]:
        return {"a": self.a, "b": self.b}


class LearnedScales(ScoreSum):
    """S_m = Σ P_i / (a_{mi} d^{b_{mi}}), a = exp(log_a) > 0. All start as Σ P_i / √d."""

    def __init__(self, layer: Layer, exponent: Literal["fixed", "learned", "none"] = "fixed") -> None:
        super().__init__(layer)
        start = 0.5 * math.log(self.d) if exponent == "none" else 0.0
        self.log_a = hint(nn.Parameter(torch.full((self.m,), start)))
        self.b = hint(nn.Parameter(torch.full((self.m,), 0.5))) if exponent == "learned" else None
        self.exponent = 0.0 if exponent == "none" else 0.5

    def scales(self) -> Sequence[Tensor]:
        return torch.exp(-self.log_a - (self.exponent if self.b is None else self.b) * math.log(self.d)).unbind()

    def probes(self) -> dict[str, Tensor]:
        return {"a": self.log_a.exp()} | ({} if self.b is None else {"b": self.b})


class PositionTable(ScoreSum):
    """Weights indexed by absolute position: no longer input than the table has room for."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.room = layer.max_length

    def check(self, keys: int) -> None:
        if keys > self.room:
            raise ZooError(
                f"{type(self).__name__} has weights for {self.room} positions and was given {keys}:"
                f" use at most {self.room} tokens, or train with a larger data.length"
            )


class PairWeights(PositionTable):
    """1A: S_m = Σ W_{mi} ⊙ P_i / √d, W_{mi} ∈ R^{T×T} from 1: L(L+1)/2 · T² parameters. It does not factor."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.w = hint(nn.Parameter(torch.ones(self.m, self.room, self.room)))

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        heads = (*history.heads, Heads(q, k))
        rows, keys = q.size(2), k.size(2)
        self.check(keys)

        def block(first: int, last: int, seen: int, weights: Tensor) -> Tensor:
            total: Tensor | None = None
            for (q_i, k_i), w_i in zip(heads, weights[..., :seen].unbind(), strict=True):
                p_i = scores_of(q_i[:, :, first:last] * self.d**-0.5, k_i[:, :, :seen])
                total = p_i * w_i if total is None else torch.addcmul(total, p_i, w_i)
            assert total is not None
            return total

        return Dense(block, rows, keys, (self.w[:, keys - rows : keys, :keys],))

    def probes(self) -> dict[str, Tensor]:
        return {"pair_weight": self.w.mean(dim=(1, 2))}


def scores_of(q: Tensor, k: Tensor) -> Tensor:
    """q kᵀ for grouped heads: (B, H, rows, keys)."""
    groups = q.size(1) // k.size(1)
    return (q.unflatten(1, (-1, groups)) @ k.unsqueeze(2).mT).flatten(1, 2)


class PositionWeights(PositionTable):
    """1B, 1C: S_m = Σ P_i diag(w_{mi}) / √d (weights of keys) or Σ diag(w_{mi}) P_i / √d (of queries), w ∈ R^T from 1."""

    def __init__(self, layer: Layer, of: Literal["query", "key"]) -> None:
        super().__init__(layer)
        self.of = of
        self.w = hint(nn.Parameter(torch.ones(self.m, self.room)))

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        keys = k.size(2)
        self.check(keys)
        first = keys - q.size(2) if self.of == "query" else 0
        weights = self.w[:, first:keys, None].unbind()  # (T, 1) or (S, 1) each
        return _weighted((*history.heads, Heads(q, k)), weights, self.of, self.d**-0.5)

    def probes(self) -> dict[str, Tensor]:
        return {"position_weight": self.w.mean(dim=1)}


def _weighted(heads: Sequence[Heads], weights: Sequence[Tensor], of: Literal["query", "key"], scale: float) -> Factors:
    """Σ diag(w_i) P_i · scale, or Σ P_i diag(w_i) · scale."""
    if of == "query":
        return Factors(tuple(Term(q, k, query=w * scale) for (q, k), w in zip(heads, weights, strict=True)))
    return Factors(tuple(Term(q, k, query=scale, key=w) for (q, k), w in zip(heads, weights, strict=True)))


class TokenWeights(ScoreSum):
    """1D, 1E: as 1C and 1B, the weights A_m = GELU(RMSNorm(X_m) W1) W2 + b made from the token. W2 = 0, b = 1 at the start."""

    def __init__(self, layer: Layer, of: Literal["query", "key"], own_layer_only: bool = False) -> None:
        super().__init__(layer)
        n = 1 if own_layer_only else self.m
        self.of = of
        self.own_layer_only = own_layer_only
        self.eps = layer.norm_eps
        self.w1 = nn.Parameter(torch.randn(layer.width, n) / math.sqrt(layer.width))
        self.w2 = nn.Parameter(torch.zeros(n, n))
        self.b = hint(nn.Parameter(torch.ones(n)))
        if own_layer_only:
            self.reads = frozenset()

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        x = inputs.query if self.of == "query" else inputs.key
        a = F.gelu(normed_product(x, self.w1, self.eps)) @ self.w2 + self.b  # (B, T, m)
        self.watch("token_weight", a, each=True)
        if self.of == "key" and state is not None:
            a = state.append(self, "key_weights", a, dim=1)  # (B, S, m)
        heads = (Heads(q, k),) if self.own_layer_only else (*history.heads, Heads(q, k))
        return _weighted(heads, a[:, None, :, :, None].unbind(dim=3), self.of, self.d**-0.5)

    def probes(self) -> dict[str, Tensor]:
        return {"token_weight_bias": self.b}


class OwnPositionWeights(PositionTable):
    """1C without the sum: S_m = diag(w_m) P_m / √d, w_m ∈ R^T from 1."""

    reads = frozenset()

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.w = hint(nn.Parameter(torch.ones(self.room)))

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        keys = k.size(2)
        self.check(keys)
        return _weighted((Heads(q, k),), (self.w[keys - q.size(2) : keys, None],), "query", self.d**-0.5)

    def probes(self) -> dict[str, Tensor]:
        return {"position_weight": self.w}


v4_m1 = preset(FixedScale, "S_m = Σ_{i≤m} P_i / √d", power=0.0)
realformer = preset(FixedScale, "S_m = Σ_{i≤m} P_i / √d, as v4_m1", starts_as="v4_m1", power=0.0)
realformer_mean = preset(FixedScale, "S_m = Σ_{i≤m} P_i / (m √d), as v4_m3", starts_as="v4_m3", power=1.0)
v4_m2 = preset(FixedScale, "S_m = Σ_{i≤m} P_i / √(d·m)", power=0.5)
v4_m3 = preset(FixedScale, "S_m = Σ_{i≤m} P_i / (m √d)", power=1.0)
v4_m4 = preset(LearnedScale, starts_as="v4_m3")
v4_m5 = preset(LearnedScales, "S_m = Σ P_i / (a_{mi} √d), a > 0 from 1", starts_as="v4_m1", exponent="fixed")
v4_m6 = preset(
    LearnedScales, "S_m = Σ P_i / (a_{mi} d^{b_{mi}}), a > 0 from 1, b from ½", starts_as="v4_m1", exponent="learned"
)
v4_m7 = preset(LearnedScales, "S_m = Σ P_i / a_{mi}, a > 0 from √d", starts_as="v4_m1", exponent="none")
v4_m1a = preset(PairWeights, starts_as="v4_m1")
v4_m1b = preset(
    PositionWeights, "S_m = Σ P_i diag(w_{mi}) / √d: a weight per key position", starts_as="v4_m1", of="key"
)
v4_m1c = preset(
    PositionWeights, "S_m = Σ diag(w_{mi}) P_i / √d: a weight per query position", starts_as="v4_m1", of="query"
)
v4_m1d = preset(
    TokenWeights,
    "S_m = Σ diag(A_m[:,i]) P_i / √d: a weight per query token",
    starts_as="v4_m1",
    of="query",
    own_layer_only=False,
)
v4_m1e = preset(
    TokenWeights,
    "S_m = Σ P_i diag(A_m[:,i]) / √d: a weight per key token",
    starts_as="v4_m1",
    of="key",
    own_layer_only=False,
)
v4_mc = preset(OwnPositionWeights, starts_as="baseline")
v4_md = preset(
    TokenWeights, "S_m = diag(A_m) P_m / √d: 1D without the sum", starts_as="baseline", of="query", own_layer_only=True
)
