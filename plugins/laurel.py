"""LAuReL: learned augmented residual connections (arXiv 2411.07501).

    rw   x' = α F(x) + β x,  (α, β) = 2 softmax(w)
    lr   x' = F(x) + x + x P U
    pa   x' = F(x) + x + Σ_{j<κ} γ_j h(x_{m−j}),  h(x) = x P U or x

In the parallel host what a site adds is made of the block's input, and the skip is weighted once, by attention's β.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.extension import ATTENTION, FFN, Layer, Residual, Site, hint, preset
from zoo.history import History
from zoo.sums import weighted_sum


class ResidualWeights(Residual):
    """x' = α F(x) + β x, (α, β) = 2 softmax(w), w from 0, at both sites."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.parallel = layer.parallel
        self.w = nn.ParameterDict({site: hint(nn.Parameter(torch.zeros(2))) for site in (ATTENTION, FFN)})

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        alpha, beta = 2 * torch.softmax(self.w[site], dim=0)
        if self.parallel and site == FFN:
            return torch.addcmul(stream, branch, alpha)
        return torch.addcmul(stream * beta, branch, alpha)

    def probes(self) -> dict[str, Tensor]:
        return {f"alpha_{site}": 2 * torch.softmax(w, dim=0)[0] for site, w in self.w.items()}


laurel_rw = preset(ResidualWeights, "x' = α F(x) + β x, (α, β) = 2 softmax(w)", starts_as="baseline")


class LowRank(nn.Module):
    """h(x) = x P U: P_ij = 1/√(rD) where i mod r = j, else 0; U from 0."""

    def __init__(self, layer: Layer, rank: int) -> None:
        super().__init__()
        if not 1 <= rank <= layer.width:
            raise ZooError(f"rank = {rank} must be from 1 to the model's width, which is {layer.width}")
        p = torch.zeros(layer.width, rank)
        rows = torch.arange(layer.width)
        p[rows, rows % rank] = 1 / math.sqrt(rank * layer.width)
        self.p = hint(nn.Parameter(p), decay=True)
        self.u = hint(nn.Parameter(torch.zeros(rank, layer.width)), decay=True)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.p @ self.u


class Augmented(Residual):
    """x' = F(x) + x + Σ_{j<κ} γ_j h(x_{m−j}); j = 0 is what the site reads, j ≥ 1 what layer m − j read.

    `weighted` is False for one term without γ (lr). h is of low rank, or the identity (`rank` 0) with γ from 0.
    """

    def __init__(self, layer: Layer, rank: int = 8, kappa: int = 3, weighted: bool = True) -> None:
        super().__init__()
        if kappa < 1:
            raise ZooError(f"kappa = {kappa} must be a positive number of layers")
        self.parallel = layer.parallel
        self.count = min(kappa, layer.number)
        self.reads = frozenset({"input"} if self.count > 1 else ())
        self.h = nn.ModuleDict(
            {site: LowRank(layer, rank) for site in (ATTENTION, FFN)} if rank or not weighted else {}
        )
        start = float(bool(self.h))
        gammas = {site: hint(nn.Parameter(torch.full((kappa,), start))) for site in (ATTENTION, FFN)}
        self.gamma = nn.ParameterDict(gammas if weighted else {})

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        total = history.current.input if self.parallel or site == ATTENTION else stream
        if self.gamma:
            earlier = history.inputs[len(history.inputs) - self.count + 1 :][::-1] if self.count > 1 else ()
            total = weighted_sum(self.gamma[site][: self.count], (total, *earlier))
        if self.h:  # h is linear: of the sum once
            total = self.h[site](total)
        return stream + branch + total

    def probes(self) -> dict[str, Tensor]:
        return {f"gamma_{site}": gamma for site, gamma in self.gamma.items()}


laurel_lr = preset(Augmented, "x' = F(x) + x + x P U", starts_as="baseline", kappa=1, weighted=False)
laurel_pa = preset(Augmented, "x' = F(x) + x + Σ_{j<κ} γ_j h(x_{m−j})", starts_as="baseline", weighted=True)
