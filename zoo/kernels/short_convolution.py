"""SiLU(Σ_k w_k ⊙ u_{t−k} + b): a few taps per channel and their activation, of which the input alone is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from zoo.kernels.sums import add_gradients, in_cache, tapped, taps
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
        d_u = torch.empty_like(u, memory_format=torch.contiguous_format)
        d_weights = torch.zeros_like(weights)
        d_bias = None if bias is None else torch.zeros_like(bias)
        for part, sums in _sums(u, weights, bias):
            d_sums = torch.empty_like(sums)
            for grad, own, into in zip(grads, *(x.split(ctx.widths, dim=-1) for x in (sums, d_sums)), strict=True):
                torch.ops.aten.silu_backward.grad_input(grad[part], own, grad_input=into)
            if d_bias is not None:
                d_bias += d_sums.sum(dim=(0, 1))
            add_gradients(d_sums, u[part], weights, 0, d_u[part], d_weights, begun=False)
        return d_u, d_weights, d_bias, None


def _sums(u: Tensor, weights: Tensor, bias: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """What SiLU is taken of, some rows of the batch at a time."""
    for part in in_cache(u, weights):
        sums = tapped(u[part], weights, 0)
        yield part, sums if bias is None else sums.add_(bias)


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
