"""A matrix as state that decays by one number per head: S_t = e^{g_t} S_{t−1} + k_t ⊗ v_t, o_t = S_tᵀ q_t.

Inside a chunk of c tokens, with G the sums of g, D_ts = e^{G_t − G_s} for s ≤ t and S the state before the chunk,

    o = (Q Kᵀ ⊙ D) V + e^G ⊙ (Q S),   S ← e^{G_c} S + Kᵀ (e^{G_c − G} ⊙ V).

No exponent is positive, so any decay is safe. Several heads of values may share a head of keys: their products with the state
are one product then.
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
from zoo.kernels.recurrence import recurrence


def scalar_decay(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, start: Tensor | None = None, *, chunk: int = 32
) -> tuple[Tensor, Tensor]:
    """o (B, T, H, V) and the last S (B, H, K, V) of q, k (B, T, Hk, K), v (B, T, H, V) and log-decays g ≤ 0 (B, T, H).

    H is a multiple of Hk, in the order of the heads. g may be (H,), the same at every token, or None, which is 0. S_{−1} is
    `start`, or 0. It is computed in at least float32; o has the type of v, S does not.
    """
    wide_q, wide_k, wide_v = at_least_single(q, k, v)
    begin = None if start is None else start.to(wide_v.dtype)
    if g is not None:
        g = g.to(wide_v.dtype)
        if g.dim() == 1 and (g.requires_grad or v.size(1) % chunk_size(chunk, v.size(1))):
            g = g.expand(*v.shape[:2], -1)
    o, last = _run(wide_q, wide_k, wide_v, g, begin, chunk=chunk)
    return o.to(v.dtype), last


class _Decays(NamedTuple):
    """What the log-decays of all chunks come to, R heads to a head of keys; None of each without decay."""

    within: Tensor | None  # D: (n, B, Hk, R, c, c)
    into: Tensor | None  # e^G, what is left of the state before the chunk: (n, B, Hk, c, R, 1)
    rest: Tensor | None  # e^{G_c − G}, what will be left at the chunk's end: (n, B, Hk, c, R, 1)
    through: Tensor | None  # e^{G_c}: (n, B, Hk, 1, R, 1)


def _decays(g: Tensor | None, heads: int, size: int) -> _Decays:
    if g is None:
        return _Decays(None, None, None, None)
    if g.dim() == 1:  # (H,)
        total = g.double().view(1, 1, heads, -1, 1) * torch.arange(1, size + 1, device=g.device)
    else:
        total = decay_sums(chunked(g.unflatten(2, (heads, -1)), size).mT)
    whole = total[..., -1:]
    into, rest, through = (x.to(g.dtype).exp().mT.unsqueeze(-1) for x in (total, whole - total, whole))
    return _Decays(decay_within(total, g.dtype), into, rest, through)


def _pairs(scores: Tensor, within: Tensor | None) -> Tensor:
    """(Q Kᵀ) ⊙ D (n, B, Hk, R, c, c) of scores (n, B, Hk, c, c)."""
    return scores.tril().unsqueeze(-3) if within is None else scores.unsqueeze(-3) * within


def _by_head(x: Tensor) -> Tensor:
    """(…, c, R, V), where heads that share keys lie side by side, as (…, R, c, V); its own reverse."""
    return x.transpose(-3, -2)


def _heads_of(x: Tensor, heads: int, size: int) -> Tensor:
    """Rows (B, T, H, V) by chunk and head: (n, B, Hk, R, c, V)."""
    return _by_head(in_chunks(x.unflatten(2, (heads, -1)), size)).contiguous()


def _rows_of(x: Tensor, length: int) -> Tensor:
    """The reverse."""
    return unchunked(_by_head(x), length).flatten(2, 3)


def _columns_of(x: Tensor, factor: Tensor | None) -> Tensor:
    """(n, B, Hk, R, c, V) times decays (n, B, Hk, c, R, 1), as columns of one matrix: (n, B, Hk, c, R·V)."""
    x = _by_head(x)
    if factor is None:
        return x.flatten(-2)
    return torch.mul(x, factor, out=x.new_empty(x.shape)).flatten(-2)


def _add_product(total: Tensor, left: Tensor, right: Tensor, factor: Tensor | None, chunks: slice) -> Tensor:
    """Add decays times left @ right (n, B, Hk, c, R·V) to some chunks of a total by head, in its memory."""
    some = total[chunks]
    own = None if factor is None else factor.expand(total.size(0), -1, -1, -1, -1, -1)[chunks]
    if some.size(-3) == 1:  # the decays of rows may as well be multiplied before
        accumulate(some, left if own is None else left * own.squeeze(-2), right)
        return total
    columns = _by_head((left @ right).unflatten(-1, (some.size(-3), -1)))
    if own is None:
        some.add_(columns)
    else:
        some.addcmul_(columns, _by_head(own))
    return total


def _carried(through: Tensor | None, chunks: int, width: int) -> Carry:
    """Decay by e^{G_c}, of every column of R·V."""
    return decayed_by(None if through is None else through.expand(chunks, -1, -1, -1, -1, width).flatten(-2))


def _side_by_side(state: Tensor | None, heads: int) -> Tensor | None:
    """A state (B, H, K, V) as that of heads that share keys: (B, Hk, K, R·V)."""
    return None if state is None else _by_head(state.unflatten(1, (heads, -1))).flatten(-2)


def _head_by_head(state: Tensor, width: int) -> Tensor:
    """The reverse, a copy."""
    return _by_head(state.unflatten(-1, (-1, width))).flatten(1, 2).clone()


def _forward(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, start: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
    """o, the last state, and what backward needs. The state of heads that share keys is one of R·V columns."""
    length, heads, size = v.size(1), k.size(2), chunk_size(chunk, v.size(1))
    q, k, v = chunked(q, size), chunked(k, size), _heads_of(v, heads, size)
    decays = _decays(g, heads, size)
    pairs = _pairs(q @ k.mT, decays.within)
    carry = _carried(decays.through, v.size(0), v.size(-1))
    states = states_of(k.mT, _columns_of(v, decays.rest), carry, _side_by_side(start, heads))
    late = reading(start)
    o = _add_product(pairs @ v, q[late], states[:-1][late], decays.into, late)
    end = _head_by_head(states[-1], v.size(-1))
    return _rows_of(o, length), end, (start, q, k, v, o, pairs, states, *decays)


def _backward(
    d_rows: Tensor,
    d_last: Tensor | None,
    needed: Sequence[bool],
    chunk: int,
    start: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    pairs: Tensor,
    states: Tensor,
    *of_decays: Tensor | None,
) -> tuple[Tensor | None, ...]:
    decays, heads, size, length = _Decays(*of_decays), q.size(2), q.size(3), d_rows.size(1)
    d_o = _heads_of(d_rows, heads, size)
    of_read = _columns_of(d_o, decays.into)  # the gradient of Q S
    carry = _carried(decays.through, v.size(0), v.size(-1))
    grads = gradients_of(q.mT, of_read, carry, _side_by_side(d_last, heads), needed[4])
    d_pairs = d_o @ v.mT
    d_pairs = d_pairs.tril_() if decays.within is None else d_pairs.mul_(decays.within)
    d_scores = d_pairs.squeeze(-3) if d_pairs.size(-3) == 1 else d_pairs.sum(-3)
    d_q, d_k = d_scores @ k, d_scores.mT @ q
    late, early = reading(start), writing(d_last)
    accumulate(d_q[late], of_read[late], states[:-1][late].mT)
    accumulate(d_k[early], _columns_of(v, decays.rest)[early], grads[1:][early].mT)
    d_v = _add_product(pairs.mT @ d_o, k[early], grads[1:][early], decays.rest, early)
    d_g = _gradient_of_decay(d_o, o, d_v, v, of_ends(states, grads, -2), length) if needed[3] else None
    first = _head_by_head(grads[0], v.size(-1)) if needed[4] else None
    return unchunked(d_q, length), unchunked(d_k, length), _rows_of(d_v, length), d_g, first


def _gradient_of_decay(d_o: Tensor, o: Tensor, d_v: Tensor, v: Tensor, of_end: Tensor, length: int) -> Tensor:
    """e^{G_t} is in all of o_t and e^{−G_t} wherever v_t is; the state after a chunk has e^{G_c}.

    The sums that lead from G to g stay inside a chunk: over all tokens they would cancel digits away.
    """
    of_sums = (d_o * o).addcmul_(d_v, v, value=-1).sum(-1)  # (n, B, Hk, R, c)
    of_whole = of_end.unflatten(-1, (-1, v.size(-1))).sum(-1, keepdim=True)
    return _rows_of((sums_from(of_sums) + of_whole).unsqueeze(-1), length).squeeze(-1)


_run = recurrence("scalar_decay", forward=_forward, backward=_backward, shapes=shapes_of)
