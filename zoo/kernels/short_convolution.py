"""SiLU(Σ_k w_k ⊙ u_{t−k} + b): a few taps per channel and their activation, of which the input alone is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from zoo.kernels.autocast import without_autocast
from zoo.kernels.sums import add_weight_gradients, in_cache, tapped, taps
from zoo.state import State, with_past


class _SiluTaps(torch.autograd.Function):
    """Saves u, the weights and the bias; a few rows at a time, so that what is between them stays in the cache."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, weights: Tensor, bias: Tensor | None, widths: Sequence[int]) -> tuple[Tensor, ...]:
        ctx.save_for_backward(u, weights, bias)
        ctx.widths = widths
        dtype = torch.promote_types(u.dtype, weights.dtype)
        answers = tuple(u.new_empty(*u.shape[:-1], width, dtype=dtype) for width in widths)
        for part, sums in _sums(u, weights, bias):
            for answer, own in zip(answers, sums.split(widths, dim=-1), strict=True):
                torch.ops.aten.silu.out(own, out=answer[part])
        return answers

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        u, weights, bias = ctx.saved_tensors
        past = weights.size(0) - 1
        d_sums = u.new_empty(u.size(0), u.size(1) + past, u.size(2), dtype=torch.promote_types(u.dtype, weights.dtype))
        d_sums[:, u.size(1) :].zero_()  # so that a convolution finds every row that it needs
        d_weights = torch.zeros_like(weights)
        d_bias = None if bias is None else torch.zeros_like(bias)
        for part, sums in _sums(u, weights, bias):
            own = d_sums[part, : u.size(1)]
            for grad, x, into in zip(grads, *(each.split(ctx.widths, dim=-1) for each in (sums, own)), strict=True):
                torch.ops.aten.silu_backward.grad_input(grad[part], x, grad_input=into)
            if d_bias is not None:
                d_bias += own.sum(dim=1).sum(dim=0)
            add_weight_gradients(own, u[part], 0, d_weights)
        return _from_later(d_sums, weights).to(u.dtype), d_weights, d_bias, None


def _sums(u: Tensor, weights: Tensor, bias: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """What SiLU is taken of, some rows of the batch at a time."""
    for part in in_cache(u, weights):
        if _convolves(u, weights):
            yield part, _convolved(u[part], weights.flip(0), bias, weights.size(0) - 1)[:, : u.size(1)]
        else:
            sums = tapped(u[part], weights, 0)
            yield part, sums if bias is None else sums.add_(bias)


def _from_later(x: Tensor, weights: Tensor) -> Tensor:
    """Σ_k w_k ⊙ x_{t+k}, of all rows that have so many after them."""
    if _convolves(x, weights):
        return _convolved(x, weights, None, 0)
    length = x.size(1) - weights.size(0) + 1
    total = x[:, :length] * weights[0]
    for k in range(1, weights.size(0)):
        total.addcmul_(x[:, k : k + length], weights[k])
    return total


LARGE = 1 << 15  # numbers, from which on a convolution is worth its preparation


def _convolves(x: Tensor, weights: Tensor) -> bool:
    """Whether oneDNN takes the taps: one pass over memory in place of one per tap."""
    known = x.device.type == "cpu" and x.dtype == weights.dtype == torch.float32
    return known and x.numel() >= LARGE and torch.backends.mkldnn.is_available()


def _convolved(x: Tensor, weights: Tensor, bias: Tensor | None, padding: int) -> Tensor:
    """Σ_k w_k ⊙ x_{t+k−padding}: rows (B, T, D) are images of height 1 whose channels come last."""
    images, kernels = x.transpose(1, 2).unsqueeze(2), weights.T[:, None, None]
    with without_autocast(x):
        sums = F.conv2d(images, kernels, bias, padding=(0, padding), groups=x.size(2))
    return sums.squeeze(2).transpose(1, 2)


def silu_taps(
    owner: nn.Module,
    u: Tensor,
    weights: Tensor,
    state: State | None,
    *,
    bias: Tensor | None = None,
    widths: Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    """SiLU(Σ_k weights[k] ⊙ u_{t−k} + bias) for weights (n, D), u = 0 before the start; in parts of these widths, or as one."""
    widths = [u.size(-1)] if widths is None else list(widths)
    if torch.compiler.is_compiling():
        sums = taps(owner, u, weights, state)
        return F.silu(sums if bias is None else sums + bias).split(widths, dim=-1)
    past = weights.size(0) - 1
    if state is None or not past:
        return tuple(_SiluTaps.apply(u, weights, bias, widths))
    answers = _SiluTaps.apply(with_past(state, owner, u, past), weights, bias, widths)
    return tuple(answer[:, past:] for answer in answers)
