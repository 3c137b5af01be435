"""Attention with a null logit: it takes part in the softmax and carries no value, so that a row may attend to nothing.

With z the null logit and lse = log Σ_j exp S_j, the weights are exp(S_j − log(exp z + exp lse)): those of plain attention
with a larger normaliser. The fused kernel's backward takes the normaliser as an argument, so it serves here too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.grouped_heads import repeat_heads


def is_fused(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether `attend_null` can attend with these heads: the CPU's kernel, on whole sequences."""
    return (
        q.device.type in ("cpu", "meta")
        and not torch.compiler.is_compiling()
        and q.size(2) == k.size(2) > 1
        and q.size(-1) == v.size(-1)
    )


def attend_null(q: Tensor, k: Tensor, v: Tensor, null: Tensor, scale: float) -> Tensor:
    """softmax([null, mask(scale q kᵀ)]) [0, v] for q (B, H, T, d), k, v (B, Hkv, T, d) and a null that fits (B, H, T, 1)."""
    k, v = repeat_heads(q, k, v)
    return _NullAttention.apply(q, k.to(q.dtype), v.to(q.dtype), null, scale)


class _NullAttention(torch.autograd.Function):
    """The fused kernel twice; nothing of the size of the scores is kept."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, null: Tensor, scale: float) -> Tensor:
        attended, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True, scale=scale)
        whole = torch.logaddexp(lse, null.to(lse.dtype).expand(*q.shape[:-1], 1).squeeze(-1))  # (B, H, T)
        out = attended * (lse - whole).exp().unsqueeze(-1).to(q.dtype)
        ctx.scale = scale
        ctx.save_for_backward(q, k, v, null, out, whole)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, null, out, whole = ctx.saved_tensors
        grad = grad if grad.stride(-1) == 1 else grad.contiguous()  # as the kernel reads it
        d_q, d_k, d_v = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, q, k, v, out, whole, 0.0, True, scale=ctx.scale
        )
        d_null = None
        if ctx.needs_input_grad[3]:
            share = (null.to(whole.dtype) - whole.unsqueeze(-1)).exp()  # (B, H, T, 1)
            per_row = (grad * out).sum(dim=-1, keepdim=True, dtype=whole.dtype)
            d_null = -(share * per_row).sum_to_size(null.shape).to(null.dtype)
        return d_q, d_k, d_v, d_null, None
