"""Mamba's scan, whose decay differs in each channel and state: no products of chunks, but a loop that stays in the cache.

Forward keeps what it is given and the state before each chunk; backward makes a chunk's states again. States are laid out
(N, E) inside, since operations on long rows are the fast ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.autocast import at_least_single, without_autocast
from zoo.kernels.chunks import chunk_size


def selective_scan(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, start: Tensor | None = None, *, chunk: int = 16
) -> tuple[Tensor, Tensor]:
    """h_t = e^{Δ_t A} ⊙ h_{t−1} + (Δ_t ⊙ x_t) ⊗ B_t, y_t = h_t C_t: y (B, T, E) and the last h (B, E, N).

    x and Δ > 0 are (B, T, E), A < 0 is (E, N), B and C are (B, T, N); h_{−1} is `start`, or 0. It is computed in at least
    float32; y has the type of x, h does not.
    """
    wide, delta, a, b, c = at_least_single(x, delta, a, b, c)
    begin = wide.new_zeros(x.size(0), *a.shape) if start is None else start.to(wide.dtype)
    a, begin = a.mT, begin.mT  # (N, E)
    with without_autocast(x):
        if torch.compiler.is_compiling():
            y, last = _plainly(delta * wide, delta, a, b, c, begin)
        else:
            y, last = _SelectiveScan.apply(delta * wide, delta, a, b, c, begin, chunk_size(chunk, x.size(1)))
    return y.to(x.dtype), last.mT


def _plainly(written: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The formula, step by step."""
    rows = []
    for t in range(written.size(1)):
        state = torch.exp(delta[:, t, None] * a) * state + written[:, t, None] * b[:, t, :, None]
        rows.append((state * c[:, t, :, None]).sum(1))
    return torch.stack(rows, dim=1), state


def _states(written: Tensor, delta: Tensor, a: Tensor, b: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The decays and the states of a chunk: (B, c, N, E) each."""
    decay = (delta.unsqueeze(2) * a).exp_()
    h = written.unsqueeze(2) * b.unsqueeze(3)
    for now, factor in zip(h.unbind(1), decay.unbind(1), strict=True):
        state = now.addcmul_(factor, state)
    return decay, h


class _SelectiveScan(torch.autograd.Function):
    """`written` is Δ ⊙ x."""

    @staticmethod
    def forward(
        ctx: Any, written: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, start: Tensor, size: int
    ) -> tuple[Tensor, Tensor]:
        a = a.contiguous()
        starts, rows, state = [], [], start
        for w, d, own_b, own_c in zip(*(x.split(size, dim=1) for x in (written, delta, b, c)), strict=True):
            starts.append(state)
            h = _states(w, d, a, own_b, state)[1]
            rows.append((own_c.unsqueeze(2) @ h).squeeze(2))
            state = h[:, -1].clone()
        ctx.save_for_backward(written, delta, a, b, c, torch.stack(starts))
        ctx.size = size
        return torch.cat(rows, dim=1), state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        *given, a, b, c, starts = ctx.saved_tensors
        written, delta = given
        d_written, d_delta, d_a = torch.empty_like(written), torch.empty_like(delta), torch.zeros_like(a)
        d_b, d_c = torch.empty_like(b), torch.empty_like(c)
        chunks = [x.split(ctx.size, dim=1) for x in (written, delta, b, c, d_y, d_written, d_delta, d_b, d_c)]
        with without_autocast(d_y):
            for w, d, own_b, own_c, own_y, *into, start in reversed(list(zip(*chunks, starts, strict=True))):
                d_last = _chunk_backward((w, d, own_b, own_c, start), a, own_y, d_last, into, d_a)
        return d_written, d_delta, d_a, d_b, d_c, d_last, None


def _chunk_backward(
    given: tuple[Tensor, ...], a: Tensor, d_y: Tensor, d_after: Tensor, into: list[Tensor], d_a: Tensor
) -> Tensor:
    """Write a chunk's gradients where they belong, and return that of the state before it."""
    written, delta, b, c, start = given
    d_written, d_delta, d_b, d_c = into
    decay, h = _states(written, delta, a, b, start)
    d_h = d_y.unsqueeze(2) * c.unsqueeze(3)
    later = d_after
    for grad, factor in zip(reversed(d_h.unbind(1)), reversed(decay.unbind(1)), strict=True):
        later = grad.add_(later).mul(factor)  # the gradient of what the step before left
    d_c.copy_((h @ d_y.unsqueeze(3)).squeeze(3))
    d_b.copy_((d_h @ written.unsqueeze(3)).squeeze(3))
    d_written.copy_((b.unsqueeze(2) @ d_h).squeeze(2))
    of_decay = d_h.mul_(decay)  # that of Δ A, once it is multiplied by the state before
    of_decay[:, 1:].mul_(h[:, :-1])
    of_decay[:, 0].mul_(start)
    d_a.add_((of_decay * delta.unsqueeze(2)).sum((0, 1)))
    torch.sum(of_decay.mul_(a), dim=2, out=d_delta)
    return later
