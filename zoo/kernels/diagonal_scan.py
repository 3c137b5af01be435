"""A recurrence of each channel by itself, h_t = a_t ⊙ h_{t−1} + b_t, in about 3√T steps on whole tensors.

Time is laid out as chunks. First every chunk runs from 0, all of them at once, for its last row and the product of its decays
alone; then these carry the state from chunk to chunk; then every chunk runs again, from what was carried to it, and keeps its
rows. So each input is read twice and nothing is written but the rows. There is no division and no logarithm: nothing overflows
however strong the decay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.kernels.autocast import at_least_single
from zoo.kernels.chunks import chunk_size
from zoo.kernels.given import check_shapes, check_tokens
from zoo.kernels.recurrence import recurrence


def linear_scan(
    a: Tensor, b: Tensor, start: Tensor | None = None, *, chunk: int | None = None
) -> tuple[Tensor, Tensor]:
    """h_t = a_t ⊙ h_{t−1} + b_t over dimension 1 of a and b (B, T, …), and the last h; h_{−1} is `start` (B, …), or 0.

    |a| ≤ 1. It is computed in at least float32; h has the type of b, the last h does not.
    """
    a, b_wide = torch.broadcast_tensors(*at_least_single(a, b))
    check_tokens(b_wide.size(1))
    check_shapes(start=(start, (b.size(0), *b_wide.shape[2:])))
    begin = b_wide.new_zeros(b.shape[:1] + b_wide.shape[2:]) if start is None else start.to(b_wide.dtype)
    h, last = _run(a, b_wide, begin, chunk=chunk)
    return h.to(b.dtype), last


def _forward(
    a: Tensor, b: Tensor, start: Tensor, chunk: int | None
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    h = torch.empty_like(b, memory_format=torch.contiguous_format)
    _scan_into(h, a, b, start, _size(chunk, b.size(1)), backwards=False)
    return h, h[:, -1].clone(), (a, h, start)


def _backward(
    d_h: Tensor,
    d_last: Tensor | None,
    needed: Sequence[bool],
    chunk: int | None,
    a: Tensor,
    h: Tensor,
    start: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient is the same scan from the end: δ_t = ∂_t + a_{t+1} ⊙ δ_{t+1}."""
    delta = torch.empty_like(h)
    delta[:, -1] = d_h[:, -1] if d_last is None else d_h[:, -1] + d_last
    _scan_into(delta[:, :-1], a[:, 1:], d_h[:, :-1], delta[:, -1], _size(chunk, h.size(1)), backwards=True)
    d_a = torch.empty_like(h)
    torch.mul(delta[:, 1:], h[:, :-1], out=d_a[:, 1:])
    torch.mul(delta[:, 0], start, out=d_a[:, 0])
    return d_a, delta, a[:, 0] * delta[:, 0]


def _size(chunk: int | None, length: int) -> int:
    return chunk_size(max(16, round(math.sqrt(length))) if chunk is None else chunk, length)


def _scan_into(out: Tensor, a: Tensor, b: Tensor, state: Tensor, size: int, *, backwards: bool) -> None:
    """Fill `out` with h_t = a_t ⊙ h_{t−1} + b_t, or `backwards` with h_t = a_t ⊙ h_{t+1} + b_t.

    What is left over after whole chunks comes last, row by row.
    """
    left, step = b.size(1) % size, -1 if backwards else 1
    whole = slice(left, None) if backwards else slice(None, b.size(1) - left)
    if b.size(1) >= size:
        rows = list(zip(*(_by_place(x[:, whole], size) for x in (out, a, b)), strict=True))[::step]
        chunks = list(range(rows[0][0].size(1)))[::step]
        carries = torch.empty_like(rows[0][0], memory_format=torch.contiguous_format)
        carries[:, chunks[0]] = state
        if len(chunks) > 1:
            _, factor, add = rows[0]
            ends, decays = add.clone(), factor.clone()
            for _, factor, add in rows[1:]:
                torch.addcmul(add, factor, ends, out=ends)
                decays.mul_(factor)
            for before, now in zip(chunks, chunks[1:], strict=False):
                torch.addcmul(ends[:, before], decays[:, before], carries[:, before], out=carries[:, now])
        states = carries
        for into, factor, add in rows:
            states = torch.addcmul(add, factor, states, out=into)
        state = states[:, chunks[-1]]
    rest = range(left)[::-1] if backwards else range(b.size(1) - left, b.size(1))
    for t in rest:
        state = torch.addcmul(b[:, t], a[:, t], state, out=out[:, t])


def _by_place(x: Tensor, size: int) -> tuple[Tensor, ...]:
    """The rows (B, n, …) of all chunks, by their place in the chunk."""
    return x.unflatten(1, (-1, size)).unbind(2)


def _shapes(a: Tensor, b: Tensor, start: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(b.shape), tuple(start.shape)


_run = recurrence("linear_scan", forward=_forward, backward=_backward, shapes=_shapes)
