"""Sums over parallel streams with weights per token, which keep no products for backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.shared_gradients import Place


class _MixedStreams(torch.autograd.Function):
    """Saves what it is given. The streams' gradient is added to that of their other readers where these are shared."""

    @staticmethod
    def forward(ctx: Any, streams: Tensor, mix: Tensor, gains: Tensor | None, branch: Tensor | None) -> Tensor:
        ctx.place = Place(streams)
        ctx.save_for_backward(streams, mix, gains, branch)
        return _mixed(streams, mix, gains, branch)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        streams, mix, gains, branch = ctx.saved_tensors
        for_streams, for_mix, for_gains, for_branch = ctx.needs_input_grad
        grad, weights = grad.contiguous(), mix.to(grad.dtype)
        d_streams = d_mix = d_gains = d_branch = None
        if for_streams:
            d_streams = ctx.place.put(lambda total: _unmixed(weights, grad, total))
        if for_mix:
            d_mix = (streams @ grad.mT).sum_to_size(mix.shape).to(mix.dtype)
        if for_gains:
            own = branch.to(grad.dtype)  # under autocast a branch is of a smaller type than the streams
            along = (grad @ own.mT).squeeze(-1) if own.size(-2) == 1 else (grad * own).sum(dim=-1)
            d_gains = along.sum_to_size(gains.shape).to(gains.dtype)
        if for_branch:
            wide = gains.to(grad.dtype)
            d_branch = wide.unsqueeze(-2) @ grad if branch.size(-2) == 1 else wide.unsqueeze(-1) * grad
            d_branch = d_branch.to(branch.dtype)
        return d_streams, d_mix, d_gains, d_branch


def _mixed(streams: Tensor, mix: Tensor, gains: Tensor | None, branch: Tensor | None) -> Tensor:
    mixed = (mix.to(streams.dtype).mT @ streams).to(streams.dtype)
    return mixed if gains is None or branch is None else mixed.addcmul_(gains.unsqueeze(-1), branch)


def _unmixed(mix: Tensor, grad: Tensor, total: Tensor | None) -> Tensor:
    """The gradient of the streams; added to `total` in place if there is one."""
    if total is None:
        return mix @ grad
    small = mix.expand(*grad.shape[:-2], *mix.shape[-2:]).flatten(0, -3)
    total.flatten(0, -3).baddbmm_(small, grad.flatten(0, -3))
    return total


def mixed_streams(streams: Tensor, mix: Tensor, gains: Tensor | None = None, branch: Tensor | None = None) -> Tensor:
    """Σ_i mix_ij streams_i + gains_j branch_j of streams (…, n, D): (…, m, D).

    `mix` is (n, m) or (…, n, m), `gains` (m) or (…, m); `branch` is (…, m, D), or (…, 1, D) for all j.
    """
    if torch.compiler.is_compiling():
        return _mixed(streams, mix, gains, branch)
    return _MixedStreams.apply(streams, mix, gains, branch)
