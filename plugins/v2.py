"""Version 2: cross-layer means added to the residual (related work: cross-layer transcoders).

at one site   stream + Σ_{i≤m} p_i s_i      with s = a or f, p_i = 1/m or softmax(w_m)_i; the transcoders' own wiring has
a matrix in place of p_i
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.extension import ATTENTION, FFN, Layer, Residual, Site, hint, preset
from zoo.history import History
from zoo.sums import weighted_sum


class MeanOfLayers(Residual):
    """Add the mean of this sublayer's outputs in all layers so far, in place of this layer's alone."""

    def __init__(self, layer: Layer, site: Site) -> None:
        super().__init__()
        self.site = site
        self.reads = frozenset({f"{site}_sum"})
        self.m = layer.number

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        if site != self.site or self.m == 1:
            return stream + branch
        earlier = history.attention_sum if site == ATTENTION else history.ffn_sum
        assert earlier is not None
        return stream + (earlier + branch) / self.m


class LearnedMeanOfLayers(Residual):
    """x_{m+1} = y_m + Σ_{i≤m} softmax(w_m)_i f_i, with w_m ∈ R^m for m ≥ 2, from 0: it starts as the plain mean."""

    reads = frozenset({"ffn"})

    def __init__(self, layer: Layer, lr_factor: float = 1.0) -> None:
        super().__init__()
        self.w = hint(nn.Parameter(torch.zeros(layer.number)), lr_factor=lr_factor) if layer.index else None

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        if site != FFN or self.w is None:
            return stream + branch
        return stream + weighted_sum(self.w.softmax(dim=0), (*history.ffn, branch))

    def probes(self) -> dict[str, Tensor]:
        return {} if self.w is None else {"layer_weights": self.w.softmax(dim=0)}


class Decoders(Residual):
    """x_{m+1} = y_m + f_m + Σ_{i<m} f_i D_im, a decoder for each pair of layers; it starts as the baseline.

    D_im = U_im V_im of rank `rank`, V from 0; with rank 0 a matrix of its own, from 0.
    """

    reads = frozenset({"ffn"})

    def __init__(self, layer: Layer, rank: int = 32) -> None:
        super().__init__()
        if rank < 0:
            raise ValueError(f"rank = {rank}: write 0 for whole matrices, or a positive rank")
        below, width = layer.index, layer.width
        if below and rank:
            self.u = nn.Parameter(torch.randn(below, width, rank) * width**-0.5)
            self.v = nn.Parameter(torch.zeros(below, rank, width))
        elif below:
            self.d = nn.Parameter(torch.zeros(below, width, width))
        self.rank, self.below = rank, below

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        written = stream + branch
        if site != FFN or not self.below:
            return written
        outputs, last = history.ffn, self.v if self.rank else self.d
        if self.rank:
            outputs = tuple(f @ u for f, u in zip(outputs, self.u.unbind(), strict=True))
        # Side by side, (B, T, (m−1)·rank): the sum over layers is one product.
        return written + torch.cat(outputs, dim=-1) @ last.flatten(0, 1)

    def probes(self) -> dict[str, Tensor]:
        if not self.below:
            return {}
        whole = self.u @ self.v if self.rank else self.d
        return {"decoder_norm": whole.square().sum(dim=(1, 2)).sqrt()}


v2_m1 = preset(MeanOfLayers, "x_{m+1} = y_m + 1/m Σ_{i≤m} f_i", site=FFN)
v2_m2 = preset(MeanOfLayers, "y_m = x_m + 1/m Σ_{i≤m} a_i", site=ATTENTION)
v2_m3 = preset(LearnedMeanOfLayers, starts_as="v2_m1")
v2_clt = preset(Decoders, starts_as="baseline")
