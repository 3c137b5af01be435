"""Version 3: earlier layers are run again on the current layer's input, with the attention pattern of their first pass.

    M_i(X) = concat_h( A_i^h · V_i^h(N1_i(X)) ) W_O,i        attention, run again
    R_i(X) = FFN_i( N2_i( X + M_i(X) ) )                      … up to the FFN's output, with no residual after it

Layer 1 is always standard. At one site the branches [those of the layers below …, this layer's own] are summed, averaged,
or weighted by softmax(w_m), and take the place of the stream, unless `keep_skip` adds it back.
"""

from __future__ import annotations

import functools
from typing import Literal

import torch
from torch import Tensor, nn

from zoo.extension import ATTENTION, FFN, Layer, Residual, Site, hint, preset
from zoo.history import History
from zoo.replay import add_attention, add_layers

Combine = Literal["sum", "mean", "learned"]


class Rerun(Residual):
    """Σ_{i<m} of the layers below, run again on x_m, beside this layer's own branch.

    At the FFN, `checkpoint` keeps the attention heads' output of each and makes the rest once more in backward.
    """

    reads = frozenset({"scores", "blocks"})

    def __init__(
        self, layer: Layer, site: Site, combine: Combine = "sum", keep_skip: bool = False, checkpoint: bool = True
    ) -> None:
        super().__init__()
        self.site = site
        self.combine = combine
        self.keep_skip = keep_skip
        self.checkpoint = checkpoint
        self.m = layer.number
        self.w = hint(nn.Parameter(torch.zeros(self.m))) if combine == "learned" and layer.index else None

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        if site != self.site or self.m == 1:
            return stream + branch
        x, weights = history.current.input, None
        if self.w is not None:
            *weights, own = self.w.softmax(dim=0).unbind()
            branch = branch * own
        add = functools.partial(add_layers, checkpoint=self.checkpoint) if site == FFN else add_attention
        mixed = add(branch, history, x, weights)
        if self.combine == "mean":
            mixed = mixed / self.m
        return stream + mixed if self.keep_skip else mixed

    def probes(self) -> dict[str, Tensor]:
        return {} if self.w is None else {"layer_weights": self.w.softmax(dim=0)}


v3_m1 = preset(Rerun, "x_{m+1} = f_m + Σ_{i<m} R_i(x_m)", site=FFN, combine="sum")
v3_m2 = preset(Rerun, "y_m = a_m + Σ_{i<m} M_i(x_m)", site=ATTENTION, combine="sum")
v3_m3_1 = preset(Rerun, "x_{m+1} = 1/m [f_m + Σ_{i<m} R_i(x_m)]", site=FFN, combine="mean")
v3_m3_2 = preset(
    Rerun, "x_{m+1} = Σ softmax(w_m) [R_1 … R_{m−1}, f_m]", starts_as="v3_m3_1", site=FFN, combine="learned"
)
v3_m4_1 = preset(Rerun, "y_m = 1/m [a_m + Σ_{i<m} M_i(x_m)]", site=ATTENTION, combine="mean")
v3_m4_2 = preset(
    Rerun, "y_m = Σ softmax(w_m) [M_1 … M_{m−1}, a_m]", starts_as="v3_m4_1", site=ATTENTION, combine="learned"
)
v3_values = preset(Rerun, "y_m = x_m + a_m + Σ_{i<m} M_i(x_m)", site=ATTENTION, combine="sum", keep_skip=True)
