"""Weighted sums over layers and over earlier positions, which save no copies and make no zero-padded gradients."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from zoo.state import State, with_past


class _WeightedSum(torch.autograd.Function):
    """Saves the weights and the tensors as they are: no products."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(weights, *tensors)
        total = (tensors[0] * weights[0]).to(_widest(weights, tensors))
        for weight, tensor in zip(weights[1:].unbind(), tensors[1:], strict=True):
            total.addcmul_(tensor, weight)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, *tensors = ctx.saved_tensors
        d_weights = None
        if ctx.needs_input_grad[0] and weights.dim() == 1:
            flat = grad.flatten()
            d_weights = torch.stack([flat.dot(t.flatten().to(flat.dtype)) for t in tensors])
        elif ctx.needs_input_grad[0]:
            d_weights = torch.stack([(grad * t).sum_to_size(weights.shape[1:]) for t in tensors])
        needed = ctx.needs_input_grad[1:]
        return d_weights, *(grad * w if need else None for w, need in zip(weights.unbind(), needed, strict=True))


def _widest(weights: Tensor, tensors: Sequence[Tensor]) -> torch.dtype:
    """The type of the sum: of the tensors, and of weights that are not single numbers."""
    dtypes = [t.dtype for t in tensors] + ([weights.dtype] if weights.dim() > 1 else [])
    return functools.reduce(torch.promote_types, dtypes)


def weighted_sum(weights: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """Σ_i weights[i] · tensors[i]; each weights[i] is a number, or broadcasts against the tensors: (D,), (B, T, 1)."""
    if torch.compiler.is_compiling():
        return torch.stack([w * t for w, t in zip(weights.unbind(), tensors, strict=True)]).sum(dim=0)
    return _WeightedSum.apply(weights, *tensors)


class _Taps(torch.autograd.Function):
    """Saves u and the weights: rows before the start are left out, not padded."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, weights: Tensor, first: int) -> Tensor:
        ctx.save_for_backward(u, weights)
        ctx.first = first
        total = torch.zeros_like(u) if first else u * weights[0]
        for k, (late, early) in _shifts(u.size(1), weights.size(0), first):
            if first or k:
                total[:, late].addcmul_(u[:, early], weights[k])
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        u, weights = ctx.saved_tensors
        d_u = torch.zeros_like(u)
        d_weights = torch.zeros_like(weights) if ctx.needs_input_grad[1] else None
        for k, (late, early) in _shifts(u.size(1), weights.size(0), ctx.first):
            d_u[:, early].addcmul_(grad[:, late], weights[k])
            if d_weights is not None:
                d_weights[k] = (grad[:, late] * u[:, early]).sum(dim=(0, 1) if weights.dim() == 2 else None)
        return d_u, d_weights, None


def _shifts(length: int, count: int, first: int) -> Iterator[tuple[int, tuple[slice, slice]]]:
    """Each tap that reaches into the sequence, with the rows it adds to and the earlier rows it adds."""
    for k in range(min(count, length - first)):
        yield k, (slice(first + k, None), slice(0, length - first - k))


def taps(owner: nn.Module, u: Tensor, weights: Tensor, state: State | None, *, first: int = 0) -> Tensor:
    """Σ_k weights[k] ⊙ u_{t−first−k}, with u = 0 before the start, for weights (n,) or (n, D)."""
    n = first + weights.size(0) - 1
    if torch.compiler.is_compiling():
        whole = with_past(state, owner, u, n) if n else u
        ends = range(whole.size(1) - first, whole.size(1) - first - weights.size(0), -1)
        slices = [whole[:, end - u.size(1) : end] * w for end, w in zip(ends, weights.unbind(), strict=True)]
        return torch.stack(slices).sum(dim=0)
    if state is None or not n:
        return _Taps.apply(u, weights, first)
    return _Taps.apply(with_past(state, owner, u, n), weights, first)[:, n:]


def previous(owner: nn.Module, u: Tensor, state: State | None) -> Tensor:
    """u_{t−1}, zero at the start."""
    return with_past(state, owner, u, 1)[:, :-1]
