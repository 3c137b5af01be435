"""The place of the norms: after the branch or after the sum, instead of before the sublayer or in addition.

    peri_ln         x' = x + N'(F(N x))
    olmo_norm       x' = x + N'(F(x))
    post_norm       x' = N'(x + F(x));      deepnorm   x' = N'(α x + F(x)), α = (2L)^¼
    residual_dual   x' = N'(x + F(x)),  r' = r + F(x);  the output is x + N''(r)

N' is an RMSNorm with a gain. In the parallel host there is one norm of the stream, after both branches.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.extension import ATTENTION, FFN, Layer, Residual, Site, hint, preset
from zoo.functional import rms_norm
from zoo.history import History


def _gain(layer: Layer, value: float = 1.0) -> nn.Parameter:
    return hint(nn.Parameter(torch.full((layer.width,), value)))


class BranchNorm(Residual):
    """x' = x + N'(branch), the gains from `gain`; `before`: a norm before the sublayer too.

    `embedding_norm`: the embedding is normed, with a gain from 1.
    """

    def __init__(self, layer: Layer, gain: float = 1.0, before: bool = True, embedding_norm: bool = False) -> None:
        super().__init__()
        self.prenorm, self.eps = before, layer.norm_eps
        self.gain = nn.ParameterDict({site: _gain(layer, gain) for site in (ATTENTION, FFN)})
        self.embedding_gain = _gain(layer) if embedding_norm and layer.index == 0 else None

    def open(self, embedding: Tensor) -> Tensor:
        return embedding if self.embedding_gain is None else rms_norm(embedding, self.embedding_gain, self.eps)

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        return stream + rms_norm(branch, self.gain[site], self.eps)

    def probes(self) -> dict[str, Tensor]:
        return {f"gain_{site}": gain for site, gain in self.gain.items()}


peri_ln = preset(BranchNorm, "x' = x + N'(F(N x))", before=True)
olmo_norm = preset(BranchNorm, "x' = x + N'(F(x))", before=False, embedding_norm=False)

SMALLER = ("v", "out", "gate", "up", "down")  # what deepnorm starts (8L)^¼ times smaller


class PostNorm(Residual):
    """x' = N'(α x + F(x)); `deep`: α = (2L)^¼ and smaller first weights, else α = 1."""

    prenorm = False

    def __init__(self, layer: Layer, deep: bool = False) -> None:
        super().__init__()
        self.eps = layer.norm_eps
        self.parallel = layer.parallel
        self.alpha = (2 * layer.num_layers) ** 0.25 if deep else 1.0
        if deep:
            self.start_scale = dict.fromkeys(SMALLER, (8 * layer.num_layers) ** -0.25)
        self.gain = nn.ParameterDict({site: _gain(layer) for site in ((FFN,) if layer.parallel else (ATTENTION, FFN))})

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        if not self.parallel:
            return rms_norm(torch.add(branch, stream, alpha=self.alpha), self.gain[site], self.eps)
        if site == ATTENTION:  # the skip is weighted here, the norm follows both branches
            return torch.add(branch, stream, alpha=self.alpha)
        return rms_norm(stream + branch, self.gain[FFN], self.eps)

    def probes(self) -> dict[str, Tensor]:
        return {f"gain_{site}": gain for site, gain in self.gain.items()}


post_norm = preset(PostNorm, "x' = N'(x + F(x))", deep=False)
deepnorm = preset(PostNorm, "x' = N'(α x + F(x)), α = (2L)^¼", deep=True)


class ResidualDual(PostNorm):
    """x' = N'(x + F(x)), r' = r + F(x), r from the embedding; x + N''(r) goes to the final norm. The stream is (x, r)."""

    widens = True

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.output_gain = _gain(layer) if layer.number == layer.num_layers else None

    def open(self, embedding: Tensor) -> Tensor:
        return embedding.expand(2, *embedding.shape)

    def close(self, stream: Tensor) -> Tensor:
        return stream[0] + rms_norm(stream[1], self.output_gain, self.eps)

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor:
        return stream[0]

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        return torch.stack([super().write(site, stream[0], branch, history), stream[1] + branch])


residual_dual = preset(ResidualDual, "x' = N'(x + F(x)), r' = r + F(x); the output is x + N''(r)")
