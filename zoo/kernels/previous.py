"""This token and the one before it, in shares that sum to 1: one pass over memory, where two taps are two."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from zoo.kernels.sums import in_cache
from zoo.state import State, with_past


def previous(owner: nn.Module, u: Tensor, state: State | None) -> Tensor:
    """u_{t−1}, zero at the start."""
    return with_past(state, owner, u, 1)[:, :-1]


def shared_with_previous(owner: nn.Module, u: Tensor, shares: Tensor, state: State | None) -> tuple[Tensor, ...]:
    """shares[i] ⊙ u_t + (1 − shares[i]) ⊙ u_{t−1} of u (B, T, D) for each row of shares (n, D), with u = 0 before the start."""
    dtype = torch.promote_types(u.dtype, shares.dtype)
    shares = shares.to(dtype)
    if state is None and not torch.compiler.is_compiling():
        return tuple(_Shared.apply(u.to(dtype), shares))
    whole = with_past(state, owner, u, 1).to(dtype)
    return tuple(torch.lerp(whole[:, :-1], whole[:, 1:], share) for share in shares)


class _Shared(torch.autograd.Function):
    """Saves u and the shares; backward goes over a few rows of the batch at a time, which stay in the cache."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, shares: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(u, shares)
        answers = tuple(torch.empty_like(u, memory_format=torch.contiguous_format) for _ in shares)
        for part in in_cache(u, shares):
            for share, answer in zip(shares, answers, strict=True):
                torch.lerp(u[part, :-1], u[part, 1:], share, out=answer[part, 1:])
                torch.mul(u[part, :1], share, out=answer[part, :1])
        return answers

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None]:
        u, shares = ctx.saved_tensors
        d_u, d_shares = torch.zeros_like(u), torch.zeros_like(shares)
        for part in in_cache(u, shares):
            rise = u[part].clone()
            rise[:, 1:] -= u[part, :-1]
            for grad, share, d_share in zip(grads, shares, d_shares, strict=True):
                own = grad[part]
                d_u[part, :-1] += torch.lerp(own[:, 1:], own[:, :-1], share)
                d_u[part, -1:].addcmul_(own[:, -1:], share)
                d_share += (own * rise).sum(dim=(0, 1))
        return d_u, d_shares if ctx.needs_input_grad[1] else None
