"""A joined product cut into heads, with rotary positions in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def rotary_table(length: int, head_dim: int, theta: float, scaled: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """cos and sin of t · θ^(−2j/d): (length, d/2, 2), in float64; `scaled` makes other frequencies of these.

    It is made on the CPU, the same bits for all devices.
    """
    frequencies = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64, device="cpu") / head_dim)
    if scaled is not None:
        frequencies = scaled(frequencies)
    angles = torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * frequencies
    return torch.stack([angles.cos(), angles.sin()], dim=-1)


def _rotate_(heads: Tensor, table: Tensor, sign: float) -> None:
    """Rotate the pairs (2j, 2j+1) of heads (B, T, H, d) in place."""
    pairs = heads.unflatten(-1, (-1, 2))
    if heads.dtype in (torch.float32, torch.float64):
        turn = torch.view_as_complex(table.to(heads.dtype))
        torch.view_as_complex(pairs).mul_((turn if sign > 0 else turn.conj())[:, None])
    else:  # no complex numbers in half precision
        pairs.copy_(_rotated(pairs.float(), table, sign))


def _rotated(pairs: Tensor, table: Tensor, sign: float) -> Tensor:
    """Pairs (B, T, H, d/2, 2), turned by the table times the sign."""
    cos, sin = table[:, None, :, 0].to(pairs.dtype), sign * table[:, None, :, 1].to(pairs.dtype)
    even, odd = pairs.unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)


def _cut(
    joined: Tensor, counts: tuple[int, ...], head_dim: int, table: Tensor | None, turned: int
) -> tuple[Tensor, ...]:
    """The heads as views of `joined`, which is turned in place."""
    heads = joined.unflatten(-1, (-1, head_dim))
    if table is not None:
        _rotate_(heads[:, :, :turned], table, 1.0)
    return tuple(part.transpose(1, 2) for part in heads.split(counts, dim=2))


class _Heads(torch.autograd.Function):
    """Works in place on a fresh product, which backward does not need.

    In backward the parts' gradients go straight to their places in one tensor; autograd would copy the whole several times.
    """

    @staticmethod
    def forward(
        ctx: Any, joined: Tensor, counts: tuple[int, ...], head_dim: int, table: Tensor | None, turned: int
    ) -> tuple[Tensor, ...]:
        ctx.shape, ctx.counts, ctx.turned = (*joined.shape[:2], sum(counts), head_dim), counts, turned
        ctx.save_for_backward(table)
        return _cut(joined, counts, head_dim, table, turned)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (table,) = ctx.saved_tensors
        heads = grads[0].new_empty(ctx.shape)
        for place, grad in zip(heads.split(ctx.counts, dim=2), grads, strict=True):
            place.copy_(grad.transpose(1, 2))
        if table is not None:
            _rotate_(heads[:, :, : ctx.turned], table, -1.0)
        return heads.flatten(2), None, None, None, None


def heads_of(
    joined: Tensor, counts: tuple[int, ...], head_dim: int, table: Tensor | None = None, turned: int = 0
) -> tuple[Tensor, ...]:
    """The heads (B, count, T, d), for each count, of a fresh product (B, T, Σ counts · d), which is overwritten.

    With a `table` (T, d/2, 2) of cos and sin, the first `turned` heads are turned by it.
    """
    if torch.compiler.is_compiling():
        if table is not None:
            heads = joined.unflatten(-1, (-1, head_dim))
            new = _rotated(heads[:, :, :turned].unflatten(-1, (-1, 2)), table, 1.0).flatten(-2)
            joined = torch.cat([new.to(heads.dtype), heads[:, :, turned:]], dim=2).flatten(2)
        return _cut(joined, counts, head_dim, None, 0)
    cut = _Heads.apply if torch.is_grad_enabled() else _cut
    return cut(joined, counts, head_dim, table, turned)
