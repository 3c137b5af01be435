"""A mean of tensors whose weights one query gives, Σ_i softmax_i(t̂_i·w) t_i, that saves no products."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.norm import inverse_rms, row_scale
from zoo.kernels.shared_gradients import Gathered, gathered_for


class _SoftmaxSum(torch.autograd.Function):
    """Saves the tensors as they are, and three numbers per row of each."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, eps: float, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        scales, logits = _logits(w, eps, tensors)
        shares = torch.softmax(logits, dim=0)
        ctx.save_for_backward(w, scales, logits, shares, *tensors)
        ctx.places = [gathered_for(t) if t.output_nr == 0 else None for t in tensors]
        ctx.mark_non_differentiable(shares)
        total = (tensors[0] * shares[0]).to(functools.reduce(torch.promote_types, [t.dtype for t in tensors]))
        for share, tensor in zip(shares[1:].unbind(), tensors[1:], strict=True):
            total.addcmul_(tensor, share)
        return total, shares

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        w, scales, logits, shares, *tensors = ctx.saved_tensors
        room = _room(grad, w)
        along = torch.stack([torch.mul(grad, t, out=room).sum(dim=-1, keepdim=True) for t in tensors]).to(shares.dtype)
        d_logits = shares * (along - (shares * along).sum(dim=0))
        of_w = d_logits * scales
        of_t = of_w * logits * scales / -w.numel()
        torch.mul(tensors[0], of_w[0], out=room)
        for a, tensor in zip(of_w[1:].unbind(), tensors[1:], strict=True):
            room.addcmul_(tensor, a)
        d_w = room.flatten(0, -2).sum(dim=0)
        parts = [_Part(grad, w, *numbers) for numbers in zip(shares, of_w, of_t, strict=True)]
        each = zip(tensors, parts, ctx.places, ctx.needs_input_grad[2:], strict=True)
        return d_w.to(w.dtype), None, *(_put(t, part, gathered) if need else None for t, part, gathered, need in each)


class _Part(NamedTuple):
    """What a reader adds to the gradient of a tensor t: share · grad + of_w · w + of_t · t."""

    grad: Tensor
    w: Tensor
    share: Tensor  # (…, 1), as the next two
    of_w: Tensor
    of_t: Tensor


class _Parts:
    """The parts of all readers of a tensor: their terms in w become one product, their terms in t one sum."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.parts: list[_Part] = []

    def gradients(self) -> tuple[Tensor]:
        of_w = torch.cat([part.of_w for part in self.parts], dim=-1)
        total = of_w @ torch.stack([part.w for part in self.parts]).to(of_w.dtype)
        for part in self.parts:
            total.addcmul_(part.grad, part.share)
        of_t = functools.reduce(torch.add, [part.of_t for part in self.parts])
        return (total.addcmul_(self.tensor, of_t).to(self.tensor.dtype),)


def _put(tensor: Tensor, part: _Part, gathered: Gathered | None) -> Tensor | None:
    """Add the part to those of other readers where the gradients of the tensor are gathered; else return it as a gradient."""
    readers = _Parts(tensor) if gathered is None else gathered.now().deferred.setdefault(_Parts, _Parts(tensor))
    assert isinstance(readers, _Parts)
    readers.parts.append(part)
    return readers.gradients()[0] if gathered is None else None


def _logits(w: Tensor, eps: float, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """One over the root mean square of every row, and t̂·w: (n, …, 1) both. A matrix product with one column is slower."""
    room = _room(tensors[0], w)
    scales = torch.stack([_scale(t, eps) for t in tensors])
    wide = w.to(room.dtype)
    return scales, torch.stack([torch.mul(t, wide, out=room).sum(dim=-1, keepdim=True) for t in tensors]) * scales


def _room(like: Tensor, w: Tensor) -> Tensor:
    """Memory for products that are summed at once: one buffer for all, which stays in the cache."""
    dtype = functools.reduce(torch.promote_types, [like.dtype, w.dtype, torch.float32])
    return torch.empty(like.shape, dtype=dtype, device=like.device)


def _scale(tensor: Tensor, eps: float) -> Tensor:
    """One over the root mean square of every row, made once for all readers of a shared tensor."""
    gathered = gathered_for(tensor)
    if gathered is None or tensor.output_nr:
        return inverse_rms(tensor, eps)
    key = (_scale, eps)
    if key not in gathered.notes:
        gathered.notes[key] = inverse_rms(tensor, eps)
    return gathered.notes[key]


def softmax_sum(w: Tensor, tensors: Sequence[Tensor], eps: float) -> tuple[Tensor, Tensor]:
    """Σ_i softmax_i(t̂_i·w) t_i of n tensors (…, D), t̂ normed by its root mean square; and the weights (n, …, 1), to look at."""
    if torch.compiler.is_compiling():
        stacked = torch.stack(list(tensors))
        shares = torch.softmax(F.linear(stacked, w[None]) * row_scale(stacked, eps), dim=0)
        return (shares * stacked).sum(dim=0).to(tensors[0].dtype), shares.detach()
    return _SoftmaxSum.apply(w, eps, *tensors)
