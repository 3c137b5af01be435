"""SwiGLU, (silu(g) ⊙ u) Wᵀ, that saves the joined product of gate and up alone."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.products import weight_gradient


class _SwiGLU(torch.autograd.Function):
    """Saves the joined product of gate and up alone; silu and its product are made again in backward."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor, down: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up, down)
        gate, up = gate_up.chunk(2, dim=-1)
        return F.linear(F.silu(gate).mul_(up), down)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        gate_up, down = ctx.saved_tensors
        return swiglu_backward(grad, gate_up, down, ctx.needs_input_grad[1])


def swiglu_backward(grad: Tensor, gate_up: Tensor, down: Tensor, for_down: bool) -> tuple[Tensor, Tensor | None]:
    """The gradients of the joined gate and up and, `for_down`, of the down projection."""
    gate, up = gate_up.chunk(2, dim=-1)
    d_inner = grad @ down.to(grad.dtype)
    silu = F.silu(gate)
    d_gate_up = torch.empty_like(gate_up)
    d_gate, d_up = d_gate_up.chunk(2, dim=-1)
    torch.mul(d_inner, silu, out=d_up)
    d_down = None
    if for_down:
        inner = silu.mul_(up)
        d_down = weight_gradient(grad, inner.to(grad.dtype), down)
    torch.ops.aten.silu_backward.grad_input(d_inner.mul_(up), gate, grad_input=d_gate)
    return d_gate_up, d_down


def swiglu(gate_up: Tensor, down: Tensor) -> Tensor:
    """(silu(gate) ⊙ up) downᵀ from the joined gate and up (…, 2F)."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():  # without gradients nothing is saved anyway
        gate, up = gate_up.chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, down)
    return _SwiGLU.apply(gate_up, down)
