"""Version 1: the skip is a sum of earlier sublayer outputs.

The idea: several groups of H nodes in the Probabilistic Transformer (arXiv 2311.15211).

    attention site   y_m     = a_m + Σ_{i<m} s_i
    FFN site         x_{m+1} = f_m + Σ_{i<m} s_i          with s = a or f; a site without a sum is standard
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from zoo.extension import ATTENTION, FFN, Layer, Residual, Site, preset
from zoo.history import History

First = Literal["standard", "embedding", "zero"]


class SumSkip(Residual):
    """At a site, skip over Σ_{i<m} of the named sublayer's outputs, or over their mean.

    `first` says what an empty sum is: an ordinary first block, the embedding as source 0 of every sum, or zero.
    """

    def __init__(
        self,
        layer: Layer,
        attention: Site | None = None,
        ffn: Site | None = None,
        mean: bool = False,
        first: First = "standard",
    ) -> None:
        super().__init__()
        self.source = {ATTENTION: attention, FFN: ffn}
        self.reads = frozenset(f"{source}_sum" for source in (attention, ffn) if source)
        self.num_earlier = layer.index
        self.mean = mean
        self.first = first

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        source = self.source[site]
        if source is None or (self.first == "standard" and self.num_earlier == 0):
            return stream + branch
        total = history.attention_sum if source == ATTENTION else history.ffn_sum
        count = self.num_earlier
        if self.first == "embedding":
            total = history.embedding if total is None else history.embedding + total
            count += 1
        if total is None:
            return branch
        return branch + (total / count if self.mean else total)


v1_m1 = preset(SumSkip, "y_m = a_m + Σ_{i<m} a_i", attention=ATTENTION, ffn=None, mean=False)
v1_m2 = preset(SumSkip, "y_m = a_m + 1/(m−1) Σ_{i<m} a_i", attention=ATTENTION, ffn=None, mean=True)
v1_m3 = preset(SumSkip, "x_{m+1} = f_m + Σ_{i<m} f_i", attention=None, ffn=FFN, mean=False)
v1_m4 = preset(SumSkip, "x_{m+1} = f_m + 1/(m−1) Σ_{i<m} f_i", attention=None, ffn=FFN, mean=True)
v1_m5 = preset(
    SumSkip, "y_m = a_m + Σ_{i<m} a_i; x_{m+1} = f_m + Σ_{i<m} a_i", attention=ATTENTION, ffn=ATTENTION, mean=False
)
v1_m6 = preset(SumSkip, "y_m = a_m + Σ_{i<m} f_i; x_{m+1} = f_m + Σ_{i<m} f_i", attention=FFN, ffn=FFN, mean=False)
v1_m7 = preset(
    SumSkip, "y_m = a_m + Σ_{i<m} a_i; x_{m+1} = f_m + Σ_{i<m} f_i", attention=ATTENTION, ffn=FFN, mean=False
)
