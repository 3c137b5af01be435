"""A recurrence of each channel by itself, h_t = a_t ⊙ h_{t−1} + b_t, in about 2√T steps of whole tensors.

Time is laid out as chunks. First every chunk runs by itself, all of them at once, and notes the product of its decays; then the
last rows are carried from chunk to chunk; then every row gets what was carried to it. There is no division and no logarithm, so
nothing overflows however strong the decay.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.autocast import at_least_single


def linear_scan(
    a: Tensor, b: Tensor, start: Tensor | None = None, *, chunk: int | None = None
) -> tuple[Tensor, Tensor]:
    """h_t = a_t ⊙ h_{t−1} + b_t over dimension 1 of a and b (B, T, …), and the last h; h_{−1} is `start` (B, …), or 0.

    |a| ≤ 1. It is computed in at least float32; h has the type of b, the last h does not.
    """
    a, b_wide = torch.broadcast_tensors(*at_least_single(a, b))
    begin = b_wide.new_zeros(b.shape[:1] + b_wide.shape[2:]) if start is None else start.to(b_wide.dtype)
    compiling = torch.compiler.is_compiling()
    h = _scanned(a, b_wide, begin, chunk) if compiling else _LinearScan.apply(a, b_wide, begin, chunk)
    return h.to(b.dtype), h[:, -1].clone()


class _LinearScan(torch.autograd.Function):
    """Saves a, h and the start. The gradient is the same scan from the end: δ_t = ∂_t + a_{t+1} ⊙ δ_{t+1}."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, start: Tensor, chunk: int | None) -> Tensor:
        h = _scanned(a, b, start, chunk)
        ctx.save_for_backward(a, h, start)
        ctx.chunk = chunk
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        a, h, start = ctx.saved_tensors
        after = torch.empty_like(a)  # a_{t+1}; the last one meets a carry of 0
        after[:, :-1], after[:, -1] = a[:, 1:], 0
        delta = _scanned(after, grad, torch.zeros_like(start), ctx.chunk, backwards=True)
        d_a = torch.empty_like(h)
        torch.mul(delta[:, 1:], h[:, :-1], out=d_a[:, 1:])
        torch.mul(delta[:, 0], start, out=d_a[:, 0])
        return d_a, delta, a[:, 0] * delta[:, 0], None


def _scanned(a: Tensor, b: Tensor, start: Tensor, chunk: int | None, backwards: bool = False) -> Tensor:
    """h_t = a_t ⊙ h_{t−1} + b_t, or h_t = a_t ⊙ h_{t+1} + b_t `backwards`."""
    length = b.size(1)
    size = min(chunk or max(16, round(math.sqrt(length))), length)
    chunks = -(-length // size)
    missing = chunks * size - length
    h, p = (_padded(x, missing, backwards, value).unflatten(1, (chunks, size)) for x, value in ((b, 0.0), (a, 1.0)))
    compiling = torch.compiler.is_compiling()
    whole = _out_of_place(h, p, start) if compiling else _in_place(h, p, start, backwards)
    return whole[:, missing:] if backwards else whole[:, :length]


def _padded(x: Tensor, missing: int, before: bool, value: float) -> Tensor:
    """A copy of x with rows of a value after the last one, or before the first one."""
    if not missing:
        return x.clone(memory_format=torch.contiguous_format)
    ends = (missing, 0) if before else (0, missing)
    return F.pad(x, (0, 0) * (x.dim() - 2) + ends, value=value)


def _in_place(h: Tensor, p: Tensor, start: Tensor, backwards: bool) -> Tensor:
    """The three passes on h (B, n, c, …), which begins as b, and p, which begins as a and ends as products of it."""
    chunks, size = h.size(1), h.size(2)
    rows, order = list(range(size)), list(range(chunks))
    if backwards:
        rows.reverse()
        order.reverse()
    hs, ps = h.unbind(2), p.unbind(2)
    for before, now in zip(rows, rows[1:], strict=False):
        hs[now].addcmul_(ps[now], hs[before])
        ps[now].mul_(ps[before])
    carries, last = torch.empty_like(h[:, :, 0]), rows[-1]
    carry = start
    for i in order:
        carries[:, i] = carry
        carry = torch.addcmul(hs[last][:, i], ps[last][:, i], carry)
    return h.addcmul_(p, carries.unsqueeze(2)).flatten(1, 2)


def _out_of_place(h: Tensor, p: Tensor, start: Tensor) -> Tensor:
    """The same for a compiler, which cannot see through a function with a backward of its own."""
    within, products = [h[:, :, 0]], [p[:, :, 0]]
    for i in range(1, h.size(2)):
        within.append(torch.addcmul(h[:, :, i], p[:, :, i], within[-1]))
        products.append(products[-1] * p[:, :, i])
    carries = [start]
    for i in range(h.size(1) - 1):
        carries.append(torch.addcmul(within[-1][:, i], products[-1][:, i], carries[-1]))
    return torch.addcmul(
        torch.stack(within, dim=2), torch.stack(products, dim=2), torch.stack(carries, dim=1).unsqueeze(2)
    ).flatten(1, 2)
