"""A matrix as state that decays by one number per head: S_t = e^{g_t} S_{t−1} + k_t ⊗ w_t v_t, o_t = S_tᵀ q_t + d v_t.

Inside a chunk of c tokens, with G the sums of g, D_ts = e^{G_t − G_s} for s ≤ t and S the state before the chunk,

    o = (Q Kᵀ ⊙ D ⊙ wᵀ + d I) V + e^G ⊙ (Q S),   S ← e^{G_c} S + Kᵀ (w ⊙ e^{G_c − G} ⊙ V).

No exponent is positive, so any decay is safe. Several heads of values may share a head of keys: their products with the state
are one product then. Inside, values and states are transposed, time last: heads of values that share keys are then rows of one
matrix and matrices of their own in the same memory, and what is transposed as a right factor, which is slow, is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.kernels.autocast import at_least_single
from zoo.kernels.chunks import (
    Carry,
    accumulate,
    chunk_size,
    chunked,
    decay_sums,
    decay_within,
    decayed_by,
    gradients_of,
    in_chunks,
    of_ends,
    reading,
    shapes_of,
    states_of,
    sums_from,
    unchunked,
    writing,
)
from zoo.kernels.given import bounded, check_matrix_state, check_shapes
from zoo.kernels.recurrence import recurrence


def scalar_decay(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    start: Tensor | None = None,
    *,
    weight: Tensor | None = None,
    skip: Tensor | None = None,
    chunk: int | None = None,
) -> tuple[Tensor, Tensor]:
    """o (B, T, H, V) and the last S (B, H, K, V) of q, k (B, T, Hk, K), v (B, T, H, V) and log-decays g ≤ 0 (B, T, H).

    H is a multiple of Hk, in the order of the heads. g may be (H,), the same at every token, or None, which is 0. `weight` w
    (B, T, H) multiplies what is written and `skip` d (H,) is what o has of v itself; without them they are 1 and 0. S_{−1} is
    `start`, or 0. It is computed in at least float32; o has the type of v, S does not. Without a `chunk` it is that which takes
    the least time: 16 tokens for keys of up to 32 channels, else 32.
    """
    constant = g is not None and g.dim() == 1
    check_matrix_state(q, k, v, start, shared=True, g=None if constant else g, weight=weight)
    check_shapes(g=(g if constant else None, (v.size(2),)), skip=(skip, (v.size(2),)))
    if chunk is None:
        chunk = 16 if k.size(-1) <= 32 else 32
    wide_q, wide_k, wide_v = at_least_single(q, k, v)
    begin, g, weight, skip = (None if x is None else x.to(wide_v.dtype) for x in (start, g, weight, skip))
    g = None if g is None else bounded(g)
    if g is not None and constant and (g.requires_grad or v.size(1) % chunk_size(chunk, v.size(1))):
        g = g.expand(*v.shape[:2], -1)
    o, last = _run(wide_q, wide_k, wide_v, g, begin, weight, skip, chunk=chunk)
    return o.to(v.dtype), last


class _Decays(NamedTuple):
    """The log-decays of all chunks in the forms that products need, R heads per head of keys; all None without decay."""

    within: Tensor | None  # D: (n, B, Hk, R, c, c)
    into: Tensor | None  # e^G, what is left of the state before the chunk: (n, B, Hk, R, 1, c)
    rest: Tensor | None  # e^{G_c − G}, what will be left at the chunk's end: (n, B, Hk, R, 1, c)
    through: Tensor | None  # e^{G_c}: (n, B, Hk, R, 1, 1)


def _decays(g: Tensor | None, heads: int, size: int) -> _Decays:
    if g is None:
        return _Decays(None, None, None, None)
    if g.dim() == 1:  # (H,)
        total = g.double().view(1, 1, heads, -1, 1) * torch.arange(1, size + 1, device=g.device)
    else:
        total = decay_sums(_per_token(g, heads, size).squeeze(-2))
    whole = total[..., -1:]
    into, rest, through = (x.to(g.dtype).exp().unsqueeze(-2) for x in (total, whole - total, whole))
    return _Decays(decay_within(total, g.dtype), into, rest, through)


def _per_token(x: Tensor, heads: int, size: int) -> Tensor:
    """Numbers per token and head (B, T, H), to multiply columns by: (n, B, Hk, R, 1, c)."""
    return in_chunks(x.unflatten(2, (heads, -1)), size).mT.contiguous().unsqueeze(-2)


def _of_tokens(x: Tensor, length: int) -> Tensor:
    """Numbers (B, T, H) per token and head, from what `_per_token` makes of them."""
    return unchunked(x.squeeze(-2).mT, length).flatten(2)


def _columns_of(x: Tensor, heads: int, size: int) -> Tensor:
    """Rows (B, T, H, V) by chunk and head, time last: (n, B, Hk, R, V, c)."""
    return in_chunks(x.unflatten(2, (heads, -1)), size).movedim(3, -1).contiguous()


def _rows_of(x: Tensor, length: int) -> Tensor:
    """Rows (B, T, H, V), from what `_columns_of` makes of them."""
    return unchunked(x.movedim(-1, 3), length).flatten(2, 3)


def _stacked(x: Tensor) -> Tensor:
    """Heads that share keys, (…, R, V, c), as one matrix (…, R·V, c)."""
    return x.flatten(-3, -2)


def _stacked_state(state: Tensor | None, heads: int) -> Tensor | None:
    """A state (B, H, K, V) as that of heads that share keys: (B, Hk, R·V, K)."""
    return None if state is None else _stacked(state.mT.unflatten(1, (heads, -1)))


def _state_by_head(state: Tensor, width: int) -> Tensor:
    """A state (B, H, K, V), copied from what `_stacked_state` makes of it."""
    return state.unflatten(-2, (-1, width)).flatten(1, 2).mT.clone(memory_format=torch.contiguous_format)


def _times(x: Tensor, factor: Tensor | None) -> Tensor:
    return x if factor is None else x * factor


def _both(factor: Tensor | None, other: Tensor | None) -> Tensor | None:
    """The product of two factors, of which None is 1."""
    return other if factor is None else _times(factor, other)


def _some(x: Tensor | None, count: int, chunks: slice) -> Tensor | None:
    """Some chunks of x, which has one entry for each of `count` chunks or one for all of them."""
    return None if x is None else x.expand(count, *x.shape[1:])[chunks]


def _add_product(total: Tensor, product: Tensor, factor: Tensor | None, chunks: slice) -> None:
    """Add a product (…, R·V, c) times numbers per token to some chunks of a total (n, B, Hk, R, V, c), in its memory."""
    some, own = total[chunks], _some(factor, total.size(0), chunks)
    if own is None:
        some.add_(product.view(some.shape))
    else:
        some.addcmul_(product.view(some.shape), own)


def _turned(x: Tensor, shared: bool) -> Tensor:
    """xᵀ as a right factor: a copy where heads share keys, as it pays for many rows to its left, else a view."""
    return x.mT.contiguous() if shared else x.mT


def _of_group(x: Tensor) -> Tensor:
    """The sum of (…, R, c, c) over the R heads that share keys; of a single one it is a view."""
    return x.squeeze(-3) if x.size(-3) == 1 else x.sum(-3)


def _dots(product: Tensor, x: Tensor) -> Tensor:
    """Σ_V of a product (…, R·V, c) times x (…, R, V, c): (…, R, 1, c)."""
    return (product.view(x.shape) * x).sum(-2, keepdim=True)


def _pairs(scores: Tensor, within: Tensor | None, weight: Tensor | None, skip: Tensor | None) -> Tensor:
    """(Q Kᵀ) ⊙ D ⊙ wᵀ + d I (n, B, Hk, R, c, c) of scores (n, B, Hk, c, c)."""
    pairs = _times(scores.tril().unsqueeze(-3) if within is None else scores.unsqueeze(-3) * within, weight)
    if skip is None:
        return pairs
    if within is None and weight is None:  # d differs from head to head
        pairs = pairs.repeat(1, 1, 1, skip.numel() // scores.size(2), 1, 1)
    pairs.diagonal(dim1=-2, dim2=-1).add_(skip.view(scores.size(2), -1, 1))
    return pairs


def _carried(through: Tensor | None, chunks: int, width: int) -> Carry:
    """The function that carries a state through a chunk: each of the R·V rows decays by e^{G_c}."""
    return decayed_by(None if through is None else _stacked(through.expand(chunks, -1, -1, -1, width, -1)))


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    start: Tensor | None,
    weight: Tensor | None,
    skip: Tensor | None,
    chunk: int,
) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
    """o, the last state, and what backward needs. The state of heads that share keys is one of R·V rows."""
    length, heads, size = v.size(1), k.size(2), chunk_size(chunk, v.size(1))
    q, k, v = chunked(q, size), chunked(k, size), _columns_of(v, heads, size)
    weight = None if weight is None else _per_token(weight, heads, size)
    decays, scores = _decays(g, heads, size), q @ k.mT
    shared = v.size(3) > 1
    o = v @ _turned(_pairs(scores, decays.within, weight, skip), shared)
    written = _stacked(_times(v, _both(decays.rest, weight)))
    states = states_of(written, k, _carried(decays.through, v.size(0), v.size(-2)), _stacked_state(start, heads))
    late = reading(start)
    _add_product(o, states[:-1][late] @ _turned(q[late], shared), decays.into, late)
    end = _state_by_head(states[-1], v.size(-2))
    kept = (start, q, k, v, weight, skip, None if g is None else o, scores, written, states, *decays)
    return _rows_of(o, length), end, kept


def _backward(
    d_rows: Tensor,
    d_last: Tensor | None,
    needed: Sequence[bool],
    chunk: int,
    start: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    weight: Tensor | None,
    skip: Tensor | None,
    o: Tensor | None,
    scores: Tensor,
    written: Tensor,
    states: Tensor,
    *of_decays: Tensor | None,
) -> tuple[Tensor | None, ...]:
    decays, heads, size, length = _Decays(*of_decays), q.size(2), q.size(3), d_rows.size(1)
    d_o = _columns_of(d_rows, heads, size)
    d_read = _stacked(_times(d_o, decays.into))  # of Sᵀ Qᵀ
    carry = _carried(decays.through, v.size(0), v.size(-2))
    grads = gradients_of(d_read, q, carry, _stacked_state(d_last, heads), needed[4])
    d_pairs = d_o.mT @ v
    d_skip = d_pairs.diagonal(dim1=-2, dim2=-1).sum((0, 1, -1)).flatten() if needed[6] else None
    d_pairs = d_pairs.tril_() if decays.within is None else d_pairs.mul_(decays.within)
    d_scores = _of_group(_times(d_pairs, weight))
    late, early = reading(start), writing(d_last)
    # In rows as soon as they are there: what follows finds their memory free, and still in the cache.
    d_q = d_scores @ k
    accumulate(d_q[late], d_read[late].mT, states[:-1][late])
    d_q = unchunked(d_q, length)
    d_k = d_scores.mT @ q
    accumulate(d_k[early], written[early].mT, grads[1:][early])
    d_k = unchunked(d_k, length)
    d_v = d_o @ _pairs(scores, decays.within, weight, skip)
    d_written = grads[1:][early] @ _turned(k[early], v.size(3) > 1)
    _add_product(d_v, d_written, _both(decays.rest, weight), early)
    d_g = d_weight = None
    if needed[5]:
        # What is written is worth as much in the pairs of its chunk and, through the states, after it.
        of_written = d_pairs.mul_(scores.unsqueeze(-3)).sum(-2, keepdim=True)
        of_written[early] += _times(_dots(d_written, v[early]), _some(decays.rest, v.size(0), early))
        d_weight = _of_tokens(of_written, length)
    if needed[3]:
        assert o is not None
        # e^{G_t} is in all that o_t reads, e^{−G_t} wherever v_t is written, and e^{G_c} in the state after a chunk; d is in
        # both of the former. The sums that lead from G to g stay inside a chunk: over all tokens they would cancel digits away.
        of_both = (o * d_o).addcmul_(v, d_v, value=-1).sum(-2, keepdim=True)
        ends = (x.unflatten(-2, (-1, v.size(-2))) for x in (states, grads))
        d_g = _of_tokens(sums_from(of_both) + of_ends(*ends, -2, -1)[..., None, None], length)
    first = _state_by_head(grads[0], v.size(-2)) if needed[4] else None
    return d_q, d_k, _rows_of(d_v, length), d_g, first, d_weight, d_skip


_run = recurrence("scalar_decay", forward=_forward, backward=_backward, shapes=shapes_of)
