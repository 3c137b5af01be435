"""Every channel is mixed with the same channel of the token before."""

import torch
from torch import Tensor, nn

from zoo.extension import Layer, MixingSite, TemporalMixing, hint
from zoo.state import State
from zoo.sums import previous

ZOO_API = (1, 0)  # what this was written against: zoo.API_VERSION


class OldTemporalMixing(TemporalMixing):
    """z_t = μ ⊙ u_t + (1−μ) ⊙ u_{t−1}, with μ ∈ R^D from 1, so that it starts as the baseline."""

    starts_as = "baseline"

    def __init__(self, layer: Layer, lr_factor: float = 1.0, site: MixingSite = "ffn") -> None:
        super().__init__()
        # A gain whose neutral value is 1 takes no weight decay.
        self.mu = hint(nn.Parameter(torch.ones(layer.width)), decay=False, lr_factor=lr_factor)
        self.site = site

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        before = previous(self, u, state)  # (B, T, D); while decoding, the state keeps the last row
        return torch.lerp(before, u, self.mu)

    def probes(self) -> dict[str, Tensor]:
        return {"present_share": self.mu}
