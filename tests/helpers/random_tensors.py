"""Tensors to check arithmetic with."""

from __future__ import annotations

import torch


def randn(*shape: int, grad: bool = True) -> torch.Tensor:
    """A tensor of float64 that depends on its shape alone, for checks of gradients."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_(
        grad
    )
