"""Weighted sums over layers and over earlier positions, which save no copies and make no zero-padded gradients."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from zoo.kernels.shared_gradients import Place
from zoo.state import State, with_past


class _WeightedSum(torch.autograd.Function):
    """Saves the weights and the tensors as they are: no products."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(weights, *tensors)
        ctx.places = [Place(t) for t in tensors]
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
        each = zip(ctx.places, weights.unbind(), tensors, ctx.needs_input_grad[1:], strict=True)
        return d_weights, *(_put_scaled(place, grad, w, t) if need else None for place, w, t, need in each)


def _put_scaled(place: Place, grad: Tensor, weight: Tensor, tensor: Tensor) -> Tensor | None:
    """The gradient of a tensor that has this weight in a sum, to where it belongs."""

    def add(total: Tensor | None) -> Tensor:
        return (grad * weight).to(tensor.dtype) if total is None else total.addcmul_(grad, weight)

    return place.put(add)


def _widest(weights: Tensor, tensors: Sequence[Tensor]) -> torch.dtype:
    """The type of the sum: of the tensors, and of weights that are not single numbers."""
    dtypes = [t.dtype for t in tensors] + ([weights.dtype] if weights.dim() > 1 else [])
    return functools.reduce(torch.promote_types, dtypes)


def weighted_sum(weights: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """Σ_i weights[i] · tensors[i]; each weights[i] is a number, or broadcasts against the tensors: (D,), (B, T, 1)."""
    if torch.compiler.is_compiling():
        return torch.stack([w * t for w, t in zip(weights.unbind(), tensors, strict=True)]).sum(dim=0)
    return _WeightedSum.apply(weights, *tensors)


CACHE = 1 << 21  # bytes of u per thread: with as many of the gradient's they stay in a core's cache, or near it


class _Taps(torch.autograd.Function):
    """Saves u and the weights: rows before the start are left out, not padded. One answer for each set of weights."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, first: int, *sets: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(u, *sets)
        ctx.first = first
        return tuple(tapped(u, weights, first) for weights in sets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        u, *sets = ctx.saved_tensors
        d_u = torch.zeros_like(u) if ctx.first else torch.empty_like(u)
        d_sets = [torch.zeros_like(w) if need else None for w, need in zip(sets, ctx.needs_input_grad[2:], strict=True)]
        for part in in_cache(u, *sets):
            for i, (grad, weights, d_weights) in enumerate(zip(grads, sets, d_sets, strict=True)):
                _add_gradients(grad[part], u[part], weights, ctx.first, d_u[part], d_weights, begun=i > 0)
        return d_u, None, *d_sets


def tapped(u: Tensor, weights: Tensor, first: int) -> Tensor:
    """Σ_k weights[k] ⊙ u_{t−first−k}."""
    total = (u.new_zeros if first else u.new_empty)(u.shape, dtype=_widest(weights, [u]))
    for part in in_cache(u, weights):
        for k, (late, early) in _shifts(u.size(1), weights.size(0), first):
            if k or first:
                total[part, late].addcmul_(u[part, early], weights[k])
            else:
                torch.mul(u[part], weights[0], out=total[part])
    return total


def _add_gradients(
    grad: Tensor, u: Tensor, weights: Tensor, first: int, d_u: Tensor, d_weights: Tensor | None, begun: bool
) -> None:
    """Add the gradients of u and, if there is a place for it, of the weights to what is there; to d_u only if it has `begun`."""
    for k, (late, early) in _shifts(u.size(1), weights.size(0), first):
        if k or first or begun:
            d_u[:, early].addcmul_(grad[:, late], weights[k])
        else:
            torch.mul(grad, weights[0], out=d_u)
    if d_weights is not None:
        add_weight_gradients(grad, u, first, d_weights)


def add_weight_gradients(grad: Tensor, u: Tensor, first: int, d_weights: Tensor) -> None:
    """Add the gradients of the weights to what is there."""
    for k, (late, early) in _shifts(u.size(1), d_weights.size(0), first):
        d_weights[k] += (grad[:, late] * u[:, early]).sum(dim=(0, 1) if d_weights.dim() == 2 else None)


def in_cache(u: Tensor, *sets: Tensor) -> Iterator[slice]:
    """Rows of u (B, T, D), so few at a time that passes over them find them in the cache; of weights per tap, all at once."""
    room = CACHE * torch.get_num_threads()  # each thread takes its share of the rows, the same in every pass
    few = max(1, room // max(1, u.size(1) * u.size(2) * u.element_size()))
    rows = few if any(weights.dim() == 2 for weights in sets) else max(1, u.size(0))
    return (slice(start, start + rows) for start in range(0, u.size(0), rows))


def _shifts(length: int, count: int, first: int) -> Iterator[tuple[int, tuple[slice, slice]]]:
    """Each tap that reaches into the sequence, with the rows it adds to and the earlier rows it adds."""
    for k in range(min(count, length - first)):
        yield k, (slice(first + k, None), slice(0, length - first - k))


def taps(owner: nn.Module, u: Tensor, weights: Tensor, state: State | None, *, first: int = 0) -> Tensor:
    """Σ_k weights[k] ⊙ u_{t−first−k}, with u = 0 before the start, for weights (n,) or (n, D)."""
    (answer,) = several_taps(owner, u, (weights,), state, first=first)
    return answer


def several_taps(
    owner: nn.Module, u: Tensor, sets: Sequence[Tensor], state: State | None, *, first: int = 0
) -> tuple[Tensor, ...]:
    """`taps` of the same u with each of several sets of weights, all of n taps."""
    n = first + sets[0].size(0) - 1
    if torch.compiler.is_compiling():
        whole = with_past(state, owner, u, n) if n else u
        ends = range(whole.size(1) - first, whole.size(1) - first - sets[0].size(0), -1)
        slices = [whole[:, end - u.size(1) : end] for end in ends]
        return tuple(
            torch.stack([s * w for s, w in zip(slices, each.unbind(), strict=True)]).sum(dim=0) for each in sets
        )
    if state is None or not n:
        return tuple(_Taps.apply(u, first, *sets))
    answers = _Taps.apply(with_past(state, owner, u, n), first, *sets)
    return tuple(answer[:, n:] for answer in answers)
