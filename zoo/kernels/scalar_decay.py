"""A matrix as state that decays by one number per head: S_t = e^{g_t} S_{t−1} + k_t ⊗ v_t, o_t = S_tᵀ q_t.

Inside a chunk of c tokens, with G the sums of g, D_ts = e^{G_t − G_s} for s ≤ t and S the state before the chunk,

    o = (Q Kᵀ ⊙ D) V + e^G ⊙ (Q S),   S ← e^{G_c} S + Kᵀ (e^{G_c − G} ⊙ V).

No exponent is positive, so any decay is safe. Several heads of values may share a head of keys: their products with the state
are one product then.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.autocast import at_least_single, without_autocast
from zoo.kernels.chunks import (
    chunk_size,
    chunked,
    decay_sums,
    decay_within,
    gradients_after,
    of_ends,
    states_before,
    sums_from,
    unchunked,
)


def scalar_decay(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, start: Tensor | None = None, *, chunk: int = 32
) -> tuple[Tensor, Tensor]:
    """o (B, T, H, V) and the last S (B, H, K, V) of q, k (B, T, Hk, K), v (B, T, H, V) and log-decays g ≤ 0 (B, T, H).

    H is a multiple of Hk, in the order of the heads. g may be (H,), the same at every token, or None, which is 0. S_{−1} is
    `start`, or 0. It is computed in at least float32; o has the type of v, S does not.
    """
    wide_q, wide_k, wide_v = at_least_single(q, k, v)
    shape = (v.size(0), v.size(2), k.size(3), v.size(3))
    begin = wide_v.new_zeros(shape) if start is None else start.to(wide_v.dtype)
    if g is not None:
        g = g.to(wide_v.dtype)
        if g.dim() == 1 and (g.requires_grad or v.size(1) % chunk_size(chunk, v.size(1))):
            g = g.expand(*v.shape[:2], -1)
    with without_autocast(v):
        if torch.compiler.is_compiling():
            o, last = _forward(wide_q, wide_k, wide_v, g, begin, chunk)[:2]
        else:
            o, last = _ScalarDecay.apply(wide_q, wide_k, wide_v, g, begin, chunk)
    return o.to(v.dtype), last


class _Decays(NamedTuple):
    """What the log-decays of all chunks come to, R heads to a head of keys; None of each without decay."""

    within: Tensor | None  # D: (B, Hk, n, R, c, c)
    into: Tensor | None  # e^G, what is left of the state before the chunk: (B, Hk, n, c, R, 1)
    rest: Tensor | None  # e^{G_c − G}, what will be left at the chunk's end: (B, Hk, n, c, R, 1)
    through: Tensor | None  # e^{G_c}: (B, Hk, n, 1, R, 1)


def _decays(g: Tensor | None, heads: int, size: int) -> _Decays:
    if g is None:
        return _Decays(None, None, None, None)
    if g.dim() == 1:  # (H,)
        total = g.double().view(1, heads, 1, -1, 1) * torch.arange(1, size + 1, device=g.device)
    else:
        total = decay_sums(chunked(g.unflatten(2, (heads, -1)), size).mT)
    whole = total[..., -1:]
    into, rest, through = (x.to(g.dtype).exp().mT.unsqueeze(-1) for x in (total, whole - total, whole))
    return _Decays(decay_within(total, g.dtype), into, rest, through)


def _scaled(x: Tensor, factor: Tensor | None) -> Tensor:
    return x if factor is None else x * factor


def _by_head(x: Tensor) -> Tensor:
    """(…, c, R, V), where heads that share keys lie side by side, as (…, R, c, V); its own reverse."""
    return x.transpose(-3, -2)


def _columns(through: Tensor | None, chunks: int, width: int) -> Tensor | None:
    """e^{G_c} for every column of R·V: (B, Hk, n, 1, R·V)."""
    return None if through is None else through.expand(-1, -1, chunks, -1, -1, width).flatten(-2)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, start: Tensor, chunk: int
) -> tuple[Tensor, Tensor, tuple[Any, ...]]:
    """o, the last state, and what backward needs. The state of heads that share keys is one of R·V columns."""
    length, heads, size = v.size(1), k.size(2), chunk_size(chunk, v.size(1))
    q, k, v = chunked(q, size), chunked(k, size), chunked(v.unflatten(2, (heads, -1)), size)  # v: (B, Hk, n, c, R, V)
    decays = _decays(g, heads, size)
    scores = (q @ k.mT).unsqueeze(-3)
    pairs = scores.tril() if decays.within is None else scores * decays.within  # (B, Hk, n, R, c, c)
    through = _columns(decays.through, v.size(2), v.size(-1))
    writing = _scaled(v, decays.rest).flatten(-2)
    begin = _by_head(start.unflatten(1, (heads, -1))).flatten(-2)
    states, last = states_before(k.mT @ writing, through, begin)
    o = _scaled((q @ states).view_as(v), decays.into) + _by_head(pairs @ _by_head(v))
    end = _by_head(last.unflatten(-1, v.shape[-2:])).flatten(1, 2)
    return unchunked(o, length).flatten(2, 3), end, (q, k, v, o, writing, pairs, states, last, *decays)


class _ScalarDecay(torch.autograd.Function):
    """Saves what it is given in chunks, the state before each chunk, and what is inside a chunk: c numbers per token."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, start: Tensor, chunk: int
    ) -> tuple[Tensor, Tensor]:
        o, last, kept = _forward(q, k, v, g, start, chunk)
        ctx.save_for_backward(*kept)
        ctx.length = v.size(1)
        return o, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_rows: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        with without_autocast(d_rows):
            return _backward(d_rows, d_last, ctx.length, ctx.needs_input_grad[3], *ctx.saved_tensors)


def _backward(
    d_rows: Tensor,
    d_last: Tensor,
    length: int,
    for_g: bool,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    writing: Tensor,
    pairs: Tensor,
    states: Tensor,
    last: Tensor,
    *of_decays: Tensor | None,
) -> tuple[Tensor | None, ...]:
    decays, heads, size = _Decays(*of_decays), q.size(1), q.size(3)
    d_o = chunked(d_rows.unflatten(2, (heads, -1)), size)
    through = _columns(decays.through, v.size(2), v.size(-1))
    reading = _scaled(d_o, decays.into).flatten(-2)  # the gradient of Q S
    end = _by_head(d_last.unflatten(1, (heads, -1))).flatten(-2)
    after, d_start = gradients_after(q.mT @ reading, through, end)
    by_head = _by_head(d_o).contiguous()
    d_pairs = by_head @ _by_head(v).mT
    d_pairs = d_pairs.tril_() if decays.within is None else d_pairs.mul_(decays.within)
    d_scores = d_pairs.squeeze(-3) if d_pairs.size(-3) == 1 else d_pairs.sum(-3)
    d_q = (d_scores @ k).add_(reading @ states.mT)
    d_k = (d_scores.mT @ q).add_(writing @ after.mT)
    d_v = _scaled((k @ after).view_as(v), decays.rest) + _by_head(pairs.mT @ by_head)
    d_g = _gradient_of_decay(d_o, o, d_v, v, of_ends(states, last, after, -2), length) if for_g else None
    first = _by_head(d_start.unflatten(-1, v.shape[-2:])).flatten(1, 2)
    return unchunked(d_q, length), unchunked(d_k, length), unchunked(d_v, length).flatten(2, 3), d_g, first, None


def _gradient_of_decay(d_o: Tensor, o: Tensor, d_v: Tensor, v: Tensor, of_end: Tensor, length: int) -> Tensor:
    """e^{G_t} is in all of o_t and e^{−G_t} wherever v_t is; the state after a chunk has e^{G_c}.

    The sums that lead from G to g stay inside a chunk: over all tokens they would cancel digits away.
    """
    of_sums = (d_o * o).sum(-1) - (d_v * v).sum(-1)  # (B, Hk, n, c, R)
    of_whole = of_end.unflatten(-1, v.shape[-2:]).sum(-1).unsqueeze(-2)
    return unchunked(sums_from(of_sums.mT).mT + of_whole, length).flatten(2, 3)
