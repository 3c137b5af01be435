"""What follows attention in a layer, FFN(N(x + heads Wᵀ)), recomputed in backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.autocast import autocast_to
from zoo.kernels.norm import inverse_rms, rms_norm_backward
from zoo.kernels.products import weight_gradient
from zoo.kernels.swiglu import swiglu_backward

T = TypeVar("T")


class TailWeights(NamedTuple):
    """The weights of a layer after its attention."""

    out: Tensor
    gain: Tensor
    gate_up: Tensor
    down: Tensor


def recompute(part: Callable[..., T], *given: Any) -> T:
    """Call a function again in backward; the counter of FLOPs recognises recomputation by this frame."""
    return part(*given)


def _up_to_gate(
    x: Tensor, heads: Tensor, out: Tensor, gain: Tensor, gate_up: Tensor, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y, 1/rms of y, the normed y, and the joined gate and up; products are taken in `dtype`."""
    y = x + F.linear(heads.to(dtype), out.to(dtype))
    scale = inverse_rms(y, eps)
    z = (y * scale).mul_(gain).to(dtype)
    return y, scale, z, F.linear(z, gate_up.to(dtype))


class _LayerTail(torch.autograd.Function):
    """Saves x and the heads: both exist anyway when layers are run again on one input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, heads: Tensor, eps: float, *weights: Tensor) -> Tensor:
        out, gain, gate_up, down = weights
        (like,) = autocast_to(x)
        ctx.dtype, ctx.eps = like.dtype, eps
        ctx.save_for_backward(x, heads, *weights)
        gate, up = _up_to_gate(x, heads, out, gain, gate_up, eps, ctx.dtype)[-1].chunk(2, dim=-1)
        return F.linear(F.silu(gate).mul_(up), down.to(ctx.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, heads, out, gain, gate_up, down = ctx.saved_tensors
        needed, dtype = ctx.needs_input_grad, ctx.dtype
        y, scale, z, product = recompute(_up_to_gate, x, heads, out, gain, gate_up, ctx.eps, dtype)
        d_product, d_down = swiglu_backward(grad, product, down, needed[6])
        d_gate_up = weight_gradient(d_product, z, gate_up) if needed[5] else None
        d_z = (d_product @ gate_up.to(dtype)).to(y.dtype)
        d_y, d_gain = rms_norm_backward(d_z, y, gain, scale, needed[4])
        narrow = d_y.to(dtype)
        d_out = weight_gradient(narrow, heads.to(dtype), out) if needed[3] else None
        return d_y, (narrow @ out.to(dtype)).to(heads.dtype), None, d_out, d_gain, d_gate_up, d_down


def layer_tail(x: Tensor, heads: Tensor, weights: TailWeights, eps: float) -> Tensor:
    """FFN(N(x + heads outᵀ)), for x (B, T, D) and heads (B, T, H·d). Backward makes everything else again."""
    return _LayerTail.apply(x, heads, eps, *weights)
