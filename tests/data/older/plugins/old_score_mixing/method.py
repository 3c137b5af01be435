"""Every head has a learned temperature."""

import torch
from torch import Tensor, nn

from zoo.extension import AttentionInputs, Layer, ScoreMixing, hint
from zoo.history import History
from zoo.scores import Factors, Scores, Term
from zoo.state import State

ZOO_API = (1, 0)  # what this was written against: zoo.API_VERSION


class OldScoreMixing(ScoreMixing):
    """S = τ_h q kᵀ / √d, with τ_h = exp(θ_h) > 0 for each head, from 1, so that it starts as the baseline."""

    starts_as = "baseline"

    def __init__(self, layer: Layer, lr_factor: float = 1.0) -> None:
        super().__init__()
        # A gain whose neutral value is 1 takes no weight decay.
        self.theta = hint(nn.Parameter(torch.zeros(layer.num_heads)), decay=False, lr_factor=lr_factor)

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        scale = self.theta.exp()[:, None, None] * q.size(-1) ** -0.5  # (H, 1, 1), against q (B, H, T, d)
        return Factors((Term(q, k, query=scale),))

    def probes(self) -> dict[str, Tensor]:
        return {"temperature": self.theta.exp()}
