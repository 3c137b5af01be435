"""Autocast in functions whose backward is written by hand."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

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


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Products where x is are taken in the types that they are given in."""
    return torch.autocast(x.device.type, enabled=False) if autocasts(x) else contextlib.nullcontext()


def at_least_single(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in one type, which is float32 or wider."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return tuple(tensor.to(dtype) for tensor in tensors)
