"""Attention over depth: what a sublayer reads is a weighted sum of the outputs below it, and nothing is accumulated.

    grn        g = Σ_j b_j ⊙ G_j,  G = [s_0, Δ_1 … Δ_{m−1}],  Δ_j = a_j + f_j;  v3: (b_j + ReLU(wᵀ G_j)) ⊙ G_j
    dca        three GRNs v3 per layer, for query, key and value
    attnres    h_k = Σ_{i<k} softmax_i(w_kᵀ ŝ_i) s_i,  s_0 the embedding, s_i the output of sublayer i

After the last layer one more sum goes to the final norm.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.extension import ATTENTION, AttentionInputs, Layer, Residual, Site, hint, preset
from zoo.functional import normed_product
from zoo.history import History
from zoo.sums import softmax_sum, weighted_sum


class Grn(nn.Module):
    """Σ_j b_j ⊙ G_j: b a number per source (version 1) or in R^D (2), or with ReLU(wᵀ G_j) added to it (3)."""

    def __init__(self, layer: Layer, version: int, count: int, normed: bool) -> None:
        super().__init__()
        self.eps, self.normed = layer.norm_eps, normed
        self.b = hint(nn.Parameter(torch.ones((count,) if version == 1 else (count, layer.width))))
        self.w = hint(nn.Parameter(torch.zeros(layer.width, 1))) if version == 3 else None

    def forward(self, sources: tuple[Tensor, ...]) -> Tensor:
        total = weighted_sum(self.b, sources)
        if self.w is None:
            return total
        seen = [normed_product(g, self.w, self.eps) if self.normed else g @ self.w for g in sources]
        # clamp is the ReLU whose derivative at 0 is 1: with the usual one a w that starts at 0 would stay there for ever
        return total + weighted_sum(torch.stack(seen).clamp(min=0), sources)


class GeneralizedResidual(Residual):
    """x = g of G_m = [s_0, Δ_1 … Δ_{m−1}]; y = g + a, Δ_m = a + f. The stream is Δ_m; the parallel FFN reads g.

    `kappa` > 0: the sources are s_0, the sum of the middle Δ, and the last κ Δ. `apart`: query, key and value have a GRN
    each, and g is the query's. `normed`: w reads Ĝ_j.
    """

    reads = frozenset({"stream"})

    def __init__(
        self, layer: Layer, version: int = 3, normed: bool = False, kappa: int = 0, apart: bool = False
    ) -> None:
        super().__init__()
        if kappa < 0:
            raise ZooError(f"kappa = {kappa} must be a number of layers, or 0 for all")
        self.parallel, self.kappa, self.separates = layer.parallel, kappa, apart

        def grn(below: int) -> Grn:
            return Grn(layer, version, below + 1 if not kappa or below <= kappa else kappa + 2, normed)

        self.inputs = nn.ModuleList(grn(layer.index) for _ in range(3 if apart else 1))
        self.output = grn(layer.number) if layer.number == layer.num_layers else None

    def sources(self, all: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if not self.kappa or len(all) - 1 <= self.kappa:
            return all
        border = len(all) - self.kappa
        return (all[0], torch.stack(all[1:border]).sum(dim=0), *all[border:])

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor | AttentionInputs:
        if site != ATTENTION:
            return history.current.input if self.parallel else stream
        sources = self.sources(history.streams)
        mixed = [grn(sources) for grn in self.inputs]
        return mixed[0] if len(mixed) == 1 else AttentionInputs(*mixed)

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        if site == ATTENTION:
            return history.current.input + branch
        attention = history.current.attention
        assert attention is not None
        delta = attention + branch
        return delta if self.output is None else self.output(self.sources((*history.streams, delta)))

    def probes(self) -> dict[str, Tensor]:
        names = ("query", "key", "value") if len(self.inputs) > 1 else ("input",)
        return {f"b_{name}": grn.b for name, grn in zip(names, self.inputs, strict=True)}


grn_v1 = preset(
    GeneralizedResidual, "g = Σ_j b_j G_j, b_j ∈ R", starts_as="baseline", version=1, normed=False, kappa=0, apart=False
)
grn_v2 = preset(
    GeneralizedResidual, "g = Σ_j b_j ⊙ G_j, b_j ∈ R^D", starts_as="baseline",
    version=2, normed=False, kappa=0, apart=False,
)  # fmt: skip
grn_v3 = preset(
    GeneralizedResidual, "g = Σ_j (b_j + ReLU(wᵀ G_j)) ⊙ G_j", starts_as="baseline", version=3, kappa=0, apart=False
)
dca = preset(
    GeneralizedResidual, "g of query, key and value = Σ_j (b_j + ReLU(wᵀ G_j)) ⊙ G_j", starts_as="baseline",
    version=3, apart=True,
)  # fmt: skip


class AttentionResidual(Residual):
    """h = Σ_i softmax_i(wᵀ ŝ_i) s_i over the sources, w ∈ R^D from 0: at the start their mean.

    With `size` 1 the sources are the embedding and every sublayer's output. With an even size they are the embedding, the
    sums of that many sublayers (blocks), and the running sum of a block that has begun, which the stream then is.
    In the parallel host the FFN has the sources of its layer's attention, and weights of its own.
    """

    def __init__(self, layer: Layer, size: int = 2) -> None:
        super().__init__()
        if not 1 <= size <= 2 * layer.num_layers or (size > 1 and size % 2):
            raise ZooError(
                f"size = {size} must be 1 or an even number of sublayers, at most the model's {2 * layer.num_layers}"
            )
        self.layer, self.size, self.parallel, self.eps = layer, size, layer.parallel, layer.norm_eps
        self.begun = 2 * layer.index % size != 0  # the layer stands inside a block
        self.reads = frozenset({"attention", "ffn"} if size == 1 else {"stream"})
        names = ["attention", "ffn"] + (["output"] if layer.number == layer.num_layers else [])
        self.w = nn.ParameterDict({name: hint(nn.Parameter(torch.zeros(layer.width))) for name in names})
        alone = ["w.attention", "w.ffn"] if layer.parallel else ["w.attention"]
        self.idle = frozenset(alone if layer.index == 0 else ())  # a mean of one source

    def below(self, history: History) -> tuple[Tensor, ...]:
        """What finished before this layer: sublayers, or blocks of them."""
        if self.size == 1:
            pairs = zip(history.attention, history.ffn, strict=True)
            return (history.embedding, *(s for pair in pairs for s in pair))
        ends = range(0, self.layer.index + 1, self.size // 2)
        return tuple(history.streams[m] for m in ends)

    def mean(self, name: str, sources: tuple[Tensor, ...]) -> Tensor:
        if len(sources) == 1:
            return sources[0]
        mean, share = softmax_sum(self.w[name], sources, self.eps)
        self.watch(f"share_{name}", share.flatten(1).mT, each=True)
        return mean

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor:
        sources = self.below(history)
        if site != ATTENTION and not self.parallel:
            return self.mean(site, (*sources, stream))
        return self.mean(site, (*sources, stream) if self.begun else sources)

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        if site == ATTENTION:
            return stream + branch if self.begun else branch
        if "output" not in self.w:
            return branch if self.size == 1 else stream + branch
        ends = (stream, branch) if self.size == 1 else (stream + branch,)
        return self.mean("output", (*self.below(history), *ends))

    def probes(self) -> dict[str, Tensor]:
        return {f"w_{name}": w for name, w in self.w.items()}


attnres = preset(AttentionResidual, "h_k = Σ_{i<k} softmax_i(w_kᵀ ŝ_i) s_i", size=1)
attnres_block = preset(AttentionResidual, "attnres over the sums of `size` sublayers")
