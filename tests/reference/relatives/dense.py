"""Sums over all layers below: DenseFormer, MUDD, GRN and DeepCrossAttention, Attention Residuals."""

import math

import torch
from torch import Tensor

from .host import Model, is_last
from .starts import Normal, full, zeros


def one_hot(*shape: int) -> Tensor:
    """1 at the last entry of every row."""
    values = zeros(*shape)
    values[..., -1] = 1
    return values


def gelu(x: Tensor) -> Tensor:
    """The exact one."""
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


class DenseFormer(Model):
    """X_m = Block_m(Y_{m−1}); Y_m = Σ_{j ≤ m, j ≡ m (mod κ)} α_j X_j if p divides m, else X_m; Y_L goes to the final norm.

    α's entries go by ascending j, the last is j = m. Every X_j is a source, whatever the period p.
    """

    settings = {"dilation": 1, "period": 1}

    def sources(self, m: int) -> list[int]:
        return [j for j in range(m + 1) if (m - j) % self.dilation == 0]

    def shapes(self, layer):
        return {} if layer.number % self.period else {"alpha": (len(self.sources(layer.number)),)}

    def start(self, layer):
        return {name: one_hot(*shape) for name, shape in self.shapes(layer).items()}

    def stack(self, x: Tensor) -> Tensor:
        outputs = [x]  # X_0 .. X_m
        for m in self.numbers():
            x = self.block(m, x)
            outputs.append(x)
            if m % self.period == 0:
                alpha = self.own(m)["alpha"]
                x = sum(alpha[n] * outputs[j] for n, j in enumerate(self.sources(m)))
        return x


class Mudd(Model):
    """y = X̄^R + Attn(N1 X̄^Q, N1 X̄^K, N1 X̄^V), X_i = y + FFN(N2 y); parallel: X_i = X̄^R + Attn(…) + FFN(N2 X̄^R).

    X̄^c_i = Σ_{j≤i} A^c_ij X_j, A_i = GELU(X̂_i W1) W2 + a per token. Layer i's parameters make what layer i + 1 reads (the
    last layer's, what the final norm reads: one way). Columns of W2 go by way (Q, K, V, R), then by j. Layer 1 reads x_1.
    The gain of N1 is shared by the ways; GELU is exact. `rounded`: h up to (h div 64 + 1)·64, as the authors' code has it.
    """

    settings = {"multiway": True, "dynamic": True, "rounded": False}

    def ways(self, layer) -> int:
        return 4 if self.multiway and not is_last(layer) else 1

    def shapes(self, layer):
        ways, sources = self.ways(layer), layer.number + 1
        h = ways * sources * (4 if is_last(layer) else 1)
        if self.rounded:
            h = (h // 64 + 1) * 64
        dynamic = {"w1": (layer.width, h), "w2": (h, ways * sources)} if self.dynamic else {}
        return dynamic | {"a": (ways, sources)}

    def start(self, layer):
        shapes = self.shapes(layer)
        dynamic = {"w1": Normal(layer.width**-0.5), "w2": zeros(*shapes["w2"])} if self.dynamic else {}
        return dynamic | {"a": one_hot(*shapes["a"])}

    def mixes(self, i: int, outputs: list[Tensor]) -> list[Tensor]:
        """X̄ of every way after layer i; `outputs` are X_0 .. X_i."""
        own = self.own(i)
        table = own["a"].expand(*outputs[-1].shape[:2], *own["a"].shape)  # (B, T, ways, sources)
        if self.dynamic:
            dynamic = gelu(self.unit(outputs[-1]) @ own["w1"]) @ own["w2"]
            table = table + dynamic.reshape(table.shape)
        ways, sources = own["a"].shape
        return [sum(table[:, :, c, j, None] * outputs[j] for j in range(sources)) for c in range(ways)]

    def stack(self, x: Tensor) -> Tensor:
        outputs, mixes = [x], [x]
        for m in self.numbers():
            query, key, value, skip = mixes if len(mixes) == 4 else mixes * 4
            y = skip + self.attention(m, query, key, value)
            outputs.append(y + self.ffn(m, skip if self.parallel else y))
            mixes = self.mixes(m, outputs)
        return mixes[0]


class Grn(Model):
    """x = g of G_t = [s_0, Δ_1 … Δ_{t−1}]; y = g + a, Δ_t = a + f; the final norm reads one more GRN, over s_0 … Δ_L.

    v1: g = Σ b_j G_j · v2: b_j ∈ R^D · v3: (b_j + ReLU(wᵀ G_j)) ⊙ G_j. Parallel: the FFN reads g. The output's parameters
    (`output_…`) are in the last layer's. `normed`: w reads Ĝ_j.
    """

    settings = {"version": 3, "normed": False}

    def count(self, layers_below: int) -> int:
        """How many sources there are."""
        return 1 + layers_below

    def grn_shapes(self, prefix: str, width: int, count: int):
        if self.version == 1:
            return {f"{prefix}b": (count,)}
        return {f"{prefix}b": (width, count)} | ({f"{prefix}w": (width,)} if self.version == 3 else {})

    def prefixes(self) -> list[str]:
        return [""]

    def shapes(self, layer):
        shapes = {}
        for prefix in self.prefixes():
            shapes |= self.grn_shapes(prefix, layer.width, self.count(layer.index))
        if is_last(layer):
            shapes |= self.grn_shapes("output_", layer.width, self.count(layer.num_layers))
        return shapes

    def start(self, layer):
        return {name: full(float(name[-1] == "b"), *shape) for name, shape in self.shapes(layer).items()}

    def sources(self, embedding: Tensor, deltas: list[Tensor]) -> list[Tensor]:
        return [embedding, *deltas]

    def grn(self, m: int, prefix: str, sources: list[Tensor]) -> Tensor:
        b = self.own(m)[f"{prefix}b"]
        total = torch.zeros_like(sources[0])
        for j, source in enumerate(sources):
            weight = b[..., j]
            if self.version == 3:
                seen = self.unit(source) if self.normed else source
                weight = weight + torch.relu(seen @ self.own(m)[f"{prefix}w"])[:, :, None]
            total = total + weight * source
        return total

    def stack(self, x: Tensor) -> Tensor:
        deltas = []
        for m in self.numbers():
            mixes = [self.grn(m, prefix, self.sources(x, deltas)) for prefix in self.prefixes()]
            a = self.attention(m, *mixes)
            f = self.ffn(m, mixes[0] if self.parallel else mixes[0] + a)
            deltas.append(a + f)
        return self.grn(self.depth, "output_", self.sources(x, deltas))


class Dca(Grn):
    """Three v3 GRNs per layer, for query, key and value; y = g_q + a (parallel: the FFN reads g_q); one GRN at the output.

    κ: the sources are s_0, the sum of the middle Δ, and the last κ Δ, at the output too; the sum is there only if it has terms.
    """

    settings = {"kappa": None, "normed": False}
    version = 3

    def prefixes(self) -> list[str]:
        return ["q_", "k_", "v_"]

    def count(self, layers_below: int) -> int:
        if self.kappa is None or layers_below <= self.kappa:
            return 1 + layers_below
        return 2 + self.kappa

    def sources(self, embedding: Tensor, deltas: list[Tensor]) -> list[Tensor]:
        if self.kappa is None or len(deltas) <= self.kappa:
            return [embedding, *deltas]
        border = len(deltas) - self.kappa
        return [embedding, sum(deltas[:border]), *deltas[border:]]


class AttnRes(Model):
    """h_k = Σ_{i<k} softmax_i(w_kᵀ ŝ_i) s_i over s_0 = x_1 and the outputs of all sublayers below; nothing is accumulated.

    The final norm reads h_{2L+1}, whose `w_output` is in the last layer's parameters. Parallel: the FFN has its own w and
    the sources of its layer's attention.
    """

    def shapes(self, layer):
        names = ["w_attention", "w_ffn"] + (["w_output"] if is_last(layer) else [])
        return dict.fromkeys(names, (layer.width,))

    def start(self, layer):
        return {name: zeros(*shape) for name, shape in self.shapes(layer).items()}

    def mean(self, w: Tensor, sources: list[Tensor]) -> Tensor:
        logits = torch.stack([self.unit(source) @ w for source in sources], dim=-1)  # (B, T, sources)
        share = torch.softmax(logits, dim=-1)
        return sum(share[:, :, i, None] * source for i, source in enumerate(sources))

    def sources(self, outputs: list[Tensor]) -> list[Tensor]:
        """What the next sublayer sees; `outputs` are s_0 .. s_{k−1}."""
        return list(outputs)

    def stack(self, x: Tensor) -> Tensor:
        outputs = [x]
        for m in self.numbers():
            own, below = self.own(m), self.sources(outputs)
            outputs.append(self.attention(m, self.mean(own["w_attention"], below)))
            sources = below if self.parallel else self.sources(outputs)
            outputs.append(self.ffn(m, self.mean(own["w_ffn"], sources)))
        return self.mean(self.own(self.depth)["w_output"], self.sources(outputs))


class AttnResBlock(AttnRes):
    """attnres over sums of `size` sublayers: b_0 = x_1, b_n of finished blocks, and the running sum of one that has begun.

    If 2L is no multiple of `size`, the last block is shorter. Parallel: the FFN sees what its layer's attention saw, also
    where a block ends between the two.
    """

    settings = {"size": 2}

    def sources(self, outputs: list[Tensor]) -> list[Tensor]:
        blocks = [outputs[0]]
        for first in range(1, len(outputs), self.size):
            blocks.append(sum(outputs[first : first + self.size]))
        return blocks
