"""RMSNorm as a module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.kernels.norm import rms_norm


class RMSNorm(nn.Module):
    """x / √(mean x² + ε) · gain."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.gain, self.eps)
