"""Skip weights: the skip and the branches get learned weights, scalars or vectors in R^D, without weight decay.

parallel host     x_{m+1} = λ ⊙ x_m + α ⊙ a_m + β ⊙ f_m
sequential host   y_m = λ₁ ⊙ x_m + α ⊙ a_m,   x_{m+1} = λ₂ ⊙ y_m + β ⊙ f_m
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from zoo.extension import ATTENTION, Layer, Residual, Site, hint, preset
from zoo.history import History


class SkipWeights(Residual):
    """λ starts at `start` (by `early` higher in layers 1 and 2); α, β are 1 unless learned; `normed` adds w_s · N1(x)."""

    def __init__(
        self,
        layer: Layer,
        start: float = 1.0,
        early: float = 0.0,
        vector: bool = False,
        noise: float = 0.0,
        attention_gain: bool = False,
        ffn_gain: bool = False,
        normed: bool = False,
        lr_factor: float = 1.0,
    ) -> None:
        super().__init__()
        self.parallel = layer.parallel
        begin = start + early if layer.number <= 2 else start

        def weight(value: float) -> nn.Parameter:
            values = torch.full((layer.width,) if vector else (), value)
            return hint(nn.Parameter(values + noise * torch.randn_like(values)), lr_factor=lr_factor)

        if layer.parallel:
            self.skip = weight(begin)
        else:
            self.skip_attention, self.skip_ffn = weight(begin), weight(begin)
        self.attention_gain = weight(1.0) if attention_gain else None
        self.ffn_gain = weight(1.0) if ffn_gain else None
        self.normed_gain = weight(0.0) if normed else None

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        if site == ATTENTION:
            gain, skip = self.attention_gain, self.skip if self.parallel else self.skip_attention
            if self.normed_gain is not None:
                block, x = history.current.block, history.current.input
                branch = torch.addcmul(branch, block.attention_norm(x), self.normed_gain)
        else:  # in the parallel host the skip was weighted at the attention site already
            gain, skip = self.ffn_gain, None if self.parallel else self.skip_ffn
        if gain is not None:
            branch = branch * gain
        return stream + branch if skip is None else torch.addcmul(branch, stream, skip)

    def probes(self) -> dict[str, Tensor]:
        return dict(self.named_parameters())


def _scalar(doc: str, begin: float = 1.0, early: float = 0.0, **learned: bool) -> Callable[..., SkipWeights]:
    """λ a scalar from `start`, which is a setting with its own default in every variant."""

    def build(layer: Layer, start: float = begin, lr_factor: float = 1.0) -> SkipWeights:
        return SkipWeights(layer, start=start, early=early, lr_factor=lr_factor, **learned)

    return preset(build, doc, starts_as="baseline" if begin == 1.0 and not early else None)


skip_scalar = _scalar("λ from 1, learned")
skip_scalar_2 = _scalar("λ from 2, learned", begin=2.0)
skip_scalar_0 = _scalar("λ from 0, learned", begin=0.0)
skip_scalar_half = _scalar("λ from 0.5, learned", begin=0.5)
skip_depth = _scalar("λ from 1.5 in layers 1–2, else from 1, learned", early=0.5)
skip_attention_gain = _scalar("λ and α from 1, learned", attention_gain=True)
skip_gains = _scalar("λ, α and β from 1, learned", attention_gain=True, ffn_gain=True)
skip_gains_log = _scalar("λ from 2, α and β from 1, learned", begin=2.0, attention_gain=True, ffn_gain=True)
skip_normed = _scalar("λ from 1, learned, plus w_s · N1(x) at attention's output, w_s from 0, learned", normed=True)
skip_vector = preset(
    SkipWeights,
    "λ ∈ R^D from 1 (with `noise` around it), learned",
    starts_as="baseline",
    early=0.0,
    vector=True,
    attention_gain=False,
    ffn_gain=False,
    normed=False,
)
