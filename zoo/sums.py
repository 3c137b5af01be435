"""Weighted sums over layers and over earlier positions, which save no copies and make no zero-padded gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from zoo.state import State, with_past


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(weights, *tensors)
        total = tensors[0] * weights[0]
        for weight, tensor in zip(weights[1:].unbind(), tensors[1:], strict=True):
            total.addcmul_(tensor, weight)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, *tensors = ctx.saved_tensors
        flat = grad.flatten()
        d_weights = torch.stack([flat.dot(t.flatten()) for t in tensors]) if ctx.needs_input_grad[0] else None
        return d_weights, *(grad * weight for weight in weights.unbind())


def weighted_sum(weights: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """Σ_i weights[i] · tensors[i]."""
    if torch.compiler.is_compiling():
        return torch.stack([w * t for w, t in zip(weights.unbind(), tensors, strict=True)]).sum(dim=0)
    return _WeightedSum.apply(weights, *tensors)


class _Taps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: Tensor, weights: Tensor, length: int) -> Tensor:
        ctx.save_for_backward(whole, weights)
        ctx.length = length
        first = whole.size(1) - length
        total = whole[:, first:] * weights[0]
        for k in range(1, weights.size(0)):
            total.addcmul_(whole[:, first - k : whole.size(1) - k], weights[k])
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        whole, weights = ctx.saved_tensors
        first = whole.size(1) - ctx.length
        d_whole = torch.zeros_like(whole)
        d_weights = torch.empty_like(weights) if ctx.needs_input_grad[1] else None
        for k in range(weights.size(0)):
            there = slice(first - k, whole.size(1) - k)
            d_whole[:, there].addcmul_(grad, weights[k])
            if d_weights is not None:
                d_weights[k] = (grad * whole[:, there]).sum(dim=(0, 1) if weights.dim() == 2 else None)
        return d_whole, d_weights, None


def taps(owner: nn.Module, u: Tensor, weights: Tensor, state: State | None, *, first: int = 0) -> Tensor:
    """Σ_k weights[k] ⊙ u_{t−first−k}, with u = 0 before the start, for weights (n,) or (n, D)."""
    n = first + weights.size(0) - 1
    whole = with_past(state, owner, u, n) if n else u
    whole = whole[:, : whole.size(1) - first]
    if torch.compiler.is_compiling():
        ends = range(whole.size(1), whole.size(1) - weights.size(0), -1)
        slices = [whole[:, end - u.size(1) : end] * w for end, w in zip(ends, weights.unbind(), strict=True)]
        return torch.stack(slices).sum(dim=0)
    return _Taps.apply(whole, weights, u.size(1))


def previous(owner: nn.Module, u: Tensor, state: State | None) -> Tensor:
    """u_{t−1}, zero at the start."""
    return with_past(state, owner, u, 1)[:, :-1]
