"""Autocast in functions whose backward is written by hand."""

from __future__ import annotations

import torch
from torch import Tensor


def autocasts(x: Tensor) -> bool:
    """Whether autocast is on where x is."""
    return x.device.type != "meta" and torch.is_autocast_enabled(x.device.type)


def autocast_to(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the type that autocast wants for a matrix product; as they are without autocast."""
    if autocasts(tensors[0]):
        return tuple(t.to(torch.get_autocast_dtype(t.device.type)) for t in tensors)
    return tensors
