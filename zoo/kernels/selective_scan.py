"""Mamba's scan, whose decay differs in each channel and state: no products of chunks, but a loop that stays in the cache.

Forward keeps what it is given and the state before each chunk; backward makes a chunk's states again. States are laid out
(N, E) inside, since operations on long rows are the fast ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.kernels.autocast import at_least_single
from zoo.kernels.chunks import chunk_size
from zoo.kernels.given import check_shapes, check_tokens
from zoo.kernels.recurrence import recurrence


def selective_scan(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, start: Tensor | None = None, *, chunk: int = 16
) -> tuple[Tensor, Tensor]:
    """h_t = e^{Δ_t A} ⊙ h_{t−1} + (Δ_t ⊙ x_t) ⊗ B_t, y_t = h_t C_t: y (B, T, E) and the last h (B, E, N).

    x and Δ > 0 are (B, T, E), A < 0 is (E, N), B and C are (B, T, N); h_{−1} is `start`, or 0. It is computed in at least
    float32; y has the type of x, h does not.
    """
    batch, length, width = x.shape
    check_tokens(length)
    check_shapes(
        delta=(delta, (batch, length, width)),
        a=(a, (width, a.size(-1))),
        b=(b, (batch, length, a.size(-1))),
        c=(c, (batch, length, a.size(-1))),
        start=(start, (batch, width, a.size(-1))),
    )
    wide, delta, a, b, c = at_least_single(x, delta, a, b, c)
    begin = wide.new_zeros(x.size(0), *a.shape) if start is None else start.to(wide.dtype)
    a, begin = a.mT, begin.mT  # (N, E)
    y, last = _run(delta * wide, delta, a, b, c, begin, chunk=chunk)
    return y.to(x.dtype), last.mT


def _states(written: Tensor, delta: Tensor, a: Tensor, b: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The decays and the states of a chunk: (B, c, N, E) each."""
    decay = (delta.unsqueeze(2) * a).exp_()
    h = written.unsqueeze(2) * b.unsqueeze(3)
    for now, factor in zip(h.unbind(1), decay.unbind(1), strict=True):
        state = now.addcmul_(factor, state)
    return decay, h


def _forward(
    written: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, start: Tensor, chunk: int
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """`written` is Δ ⊙ x."""
    a, size = a.contiguous(), chunk_size(chunk, written.size(1))
    starts, rows, state = [], [], start
    for w, d, own_b, own_c in zip(*(x.split(size, dim=1) for x in (written, delta, b, c)), strict=True):
        starts.append(state)
        h = _states(w, d, a, own_b, state)[1]
        rows.append((own_c.unsqueeze(2) @ h).squeeze(2))
        state = h[:, -1].clone()
    return torch.cat(rows, dim=1), state, (written, delta, a, b, c, torch.stack(starts))


def _backward(
    d_y: Tensor, d_last: Tensor | None, needed: Sequence[bool], chunk: int, *kept: Tensor
) -> tuple[Tensor, ...]:
    written, delta, a, b, c, starts = kept
    size, later = chunk_size(chunk, d_y.size(1)), torch.zeros_like(starts[0]) if d_last is None else d_last
    d_written, d_delta, d_a = torch.empty_like(written), torch.empty_like(delta), torch.zeros_like(a)
    d_b, d_c = torch.empty_like(b), torch.empty_like(c)
    chunks = [x.split(size, dim=1) for x in (written, delta, b, c, d_y, d_written, d_delta, d_b, d_c)]
    for w, d, own_b, own_c, own_y, *into, start in reversed(list(zip(*chunks, starts, strict=True))):
        later = _chunk_backward((w, d, own_b, own_c, start), a, own_y, later, into, d_a)
    return d_written, d_delta, d_a, d_b, d_c, later


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


def _shapes(
    written: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, start: Tensor
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(written.shape), tuple(start.shape)


_run = recurrence("selective_scan", forward=_forward, backward=_backward, shapes=_shapes)
