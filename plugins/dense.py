"""Dense connections: a layer reads a learned sum of the embedding and of every layer's output below it.

    denseformer   Y_m = Σ_{j≤m} α_mj X_j                       a number per pair of layers
    mudd          X̄^c_m = Σ_{j≤m} A^c_mj ⊙ X_j,   A_m = GELU(X̂_m W1) W2 + a_m      per token, for query, key, value and skip

X_0 is the embedding, X_m = Block_m(…) what layer m leaves; after the last layer one more sum goes to the final norm.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo_plugins.rebased import Rebased
from zoo_plugins.v1 import v1_m3

from zoo.errors import ZooError
from zoo.extension import ATTENTION, AttentionInputs, Layer, Residual, Site, hint, preset
from zoo.functional import normed_product
from zoo.history import History
from zoo.sums import weighted_sum


def _one_hot(*shape: int) -> nn.Parameter:
    """1 at the last entry of every row: the layer below alone."""
    values = torch.zeros(shape)
    values[..., -1] = 1
    return hint(nn.Parameter(values))


class DenseFormer(Rebased):
    """X_m = Block_m(Y_{m−1}), Y_m = Σ_{j≤m, j≡m (mod κ)} α_mj X_j if p divides m, else X_m; α from one-hot.

    A layer has the α of what it reads; the last one also those of what it leaves.
    """

    reads = frozenset({"stream"})

    def __init__(self, layer: Layer, dilation: int = 1, period: int = 1) -> None:
        super().__init__(layer)
        for name, value in (("dilation", dilation), ("period", period)):
            if not 1 <= value <= layer.num_layers:
                raise ZooError(f"{name} = {value} must be from 1 to the model's depth, which is {layer.num_layers}")
        self.dilation, self.period = dilation, period
        self.alpha = self._weights(layer.index)
        self.alpha_output = self._weights(layer.number) if layer.number == layer.num_layers else None

    def _weights(self, m: int) -> nn.Parameter | None:
        return _one_hot(m // self.dilation + 1) if m and m % self.period == 0 else None

    def base(self, stream: Tensor, history: History) -> Tensor:
        return stream if self.alpha is None else self.average(self.alpha, history.streams)

    def left(self, stream: Tensor, history: History) -> Tensor:
        return stream if self.alpha_output is None else self.average(self.alpha_output, (*history.streams, stream))

    def average(self, alpha: Tensor, outputs: tuple[Tensor, ...]) -> Tensor:
        """Σ α_j X_j; `outputs` are X_0 … X_m."""
        return weighted_sum(alpha, outputs[(len(outputs) - 1) % self.dilation :: self.dilation])

    def probes(self) -> dict[str, Tensor]:
        weights = {"alpha": self.alpha, "alpha_output": self.alpha_output}
        return {name: w for name, w in weights.items() if w is not None}


denseformer = preset(DenseFormer, "Y_m = Σ_{j≤m} α_mj X_j", starts_as="baseline")


class Left(NamedTuple):
    """What a layer leaves, and how the next one sums it with what lies below."""

    x: Tensor  # X_m
    weights: Tensor  # A of every way: (C, sources), or per token (C, sources, B, T, 1)


def _sources(history: History) -> tuple[Tensor, ...]:
    """X_0 … of all layers below."""
    opened, *others = history.streams
    return (opened, *(left.x for left in others))


class Mudd(Residual):
    """y = X̄^R + Attn(N1 X̄^Q, N1 X̄^K, N1 X̄^V), X_m = y + FFN(N2 y); the first layer reads the embedding.

    The stream is X_m with the weights A of the sums that the next layer reads: one for all, or one per way (Q, K, V, R). That
    layer makes each sum where it needs it, so none is kept. `rounded`: h, the width of the map that makes A, up to
    (h div 64 + 1) · 64.
    """

    reads = frozenset({"stream"})
    widens = True

    def __init__(self, layer: Layer, multiway: bool = True, dynamic: bool = True, rounded: bool = False) -> None:
        super().__init__()
        self.parallel, self.eps = layer.parallel, layer.norm_eps
        self.first, self.last = layer.index == 0, layer.number == layer.num_layers
        self.separates = multiway and not self.first
        ways, sources = 4 if multiway and not self.last else 1, layer.number + 1
        self.a = _one_hot(ways, sources)
        self.w1 = self.w2 = None
        if dynamic:
            h = ways * sources * (4 if self.last else 1)
            h = (h // 64 + 1) * 64 if rounded else h
            self.w1 = hint(nn.Parameter(torch.randn(layer.width, h) * layer.width**-0.5), decay=True)
            self.w2 = hint(nn.Parameter(torch.zeros(h, ways * sources)), decay=True)

    def read(self, site: Site, stream: Tensor | Left, history: History) -> Tensor | AttentionInputs:
        if site != ATTENTION:
            return self.skip(stream, history) if self.parallel else stream
        if isinstance(stream, Left) and self.separates:
            return AttentionInputs(*(weighted_sum(weights, _sources(history)) for weights in stream.weights[:3]))
        return weighted_sum(stream.weights[0], _sources(history)) if isinstance(stream, Left) else stream

    def skip(self, stream: Tensor | Left, history: History) -> Tensor:
        """X̄^R; where there is one sum for all ways, what attention read."""
        if isinstance(stream, Left) and self.separates:
            return weighted_sum(stream.weights[3], _sources(history))
        return history.current.input

    def write(self, site: Site, stream: Tensor | Left, branch: Tensor, history: History) -> Tensor | Left:
        if site == ATTENTION:
            return self.skip(stream, history) + branch
        x = stream + branch
        weights = self.weights(x)
        return weighted_sum(weights[0], (*_sources(history), x)) if self.last else Left(x, weights)

    def weights(self, x: Tensor) -> Tensor:
        """A of every way: (C, sources), or per token (C, sources, B, T, 1)."""
        if self.w1 is None or self.w2 is None:
            return self.a.clone()  # for another layer to read, which a parameter is not
        made = F.gelu(normed_product(x, self.w1, self.eps)) @ self.w2
        return (made + self.a.flatten()).movedim(-1, 0).unflatten(0, self.a.shape).unsqueeze(-1).contiguous()

    def probes(self) -> dict[str, Tensor]:
        return {"a": self.a}


mudd = preset(
    Mudd, "X̄^c = Σ_j A^c_j ⊙ X_j for query, key, value and skip, A = GELU(X̂ W1) W2 + a", starts_as="baseline",
    multiway=True, dynamic=True,
)  # fmt: skip
mudd_dynamic = preset(
    Mudd, "X̄ = Σ_j A_j ⊙ X_j, A = GELU(X̂ W1) W2 + a", starts_as="baseline", multiway=False, dynamic=True
)
mudd_multiway_static = preset(
    Mudd, "X̄^c = Σ_j a^c_j X_j for query, key, value and skip", starts_as="baseline",
    multiway=True, dynamic=False, rounded=False,
)  # fmt: skip
mudd_static = preset(Mudd, "X̄ = Σ_j a_j X_j", starts_as="baseline", multiway=False, dynamic=False, rounded=False)
two_hop = preset(v1_m3, "x_{m+1} = x_m + FFN(N2(x_m + a_m)), as v1_m3 from the embedding on", first="embedding")
