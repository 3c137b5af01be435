"""A matrix as state whose every row decays by itself: S_t = diag(e^{g_t}) S_{t−1} + k_t ⊗ v_t, o_t = S_tᵀ q_t.

Inside a chunk, with G the sums of g and ρ their value in the chunk's middle, the decays go into the queries and keys,

    Q̂ = Q ⊙ e^{G−ρ},   K̂ = K ⊙ e^{ρ−G},   o = tril(Q̂ K̂ᵀ) V + Q̂ (e^ρ ⊙ S),   S ← e^{G_c} ⊙ S + e^{G_c−ρ} ⊙ K̂ᵀ V.

One of the factors grows. Where half a chunk's decay would leave gradients no room below the largest float32, the chunk is
halved, again and again: two tokens are safe for any decay. The strongest decay of all rows and tokens decides for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.kernels.autocast import at_least_single
from zoo.kernels.chunks import (
    chunk_size,
    chunked,
    decayed_by,
    gradients_of,
    of_ends,
    reading,
    shapes_of,
    states_of,
    sums_from,
    unchunked,
    writing,
)
from zoo.kernels.given import check_matrix_state, check_shapes
from zoo.kernels.recurrence import recurrence

LARGEST = 44.0  # e^44, times gradients of e^44, is a number in float32
STRONGEST = 37.0  # e^{−37} is what rounding takes, in float64 too; beside weak decays it halves no chunk


def channel_decay(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, start: Tensor | None = None, *, chunk: int = 16
) -> tuple[Tensor, Tensor]:
    """o (B, T, H, V) and the last S (B, H, K, V) of q, k and log-decays g ≤ 0 (B, T, H, K) and v (B, T, H, V).

    S_{−1} is `start`, or 0. It is computed in at least float32; o has the type of v, S does not. The strongest decay, of any
    row and token, decides how large chunks may be: so the other outputs change by rounding, less than 3e-6 of the largest one in
    float32. To look at it, each call waits for the device that g is on.
    """
    check_matrix_state(q, k, v, start)
    check_shapes(g=(g, tuple(k.shape)))
    wide_q, wide_k, wide_v, g = at_least_single(q, k, v, g)
    begin = None if start is None else start.to(wide_v.dtype)
    o, last = _run(wide_q, wide_k, wide_v, g.clamp(min=-STRONGEST), begin, chunk=chunk)
    return o.to(v.dtype), last


def _safe_size(g: Tensor, chunk: int) -> int:
    """The largest chunk, halved from the one that is wanted, inside which no factor overflows."""
    size = chunk_size(chunk, g.size(1))
    if g.is_meta or size <= 2:
        return size
    strongest = -float(g.detach().amin())
    while size > 2 and strongest * (size // 2) > LARGEST and _span(g.detach(), size) > LARGEST:
        size //= 2
    return size


def _span(g: Tensor, size: int) -> float:
    """The largest |G − ρ| in any chunk."""
    total = chunked(g, size).cumsum(-2)
    middle = total[..., _middle(size), :]
    return float(torch.maximum(total[..., 0, :] - middle, middle - total[..., -1, :]).amax())


def _middle(size: int) -> int:
    return (size - 1) // 2


def _forward(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, start: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
    """o, the last state, and queries and keys with their decays, values, the pairs in a chunk, and all states."""
    length, size = v.size(1), _safe_size(g, chunk)
    q, k, v = (chunked(x, size) for x in (q, k, v))
    total = chunked(g, size).cumsum(-2)  # (n, B, H, c, K)
    middle, whole = total[..., _middle(size), None, :], total[..., -1:, :]
    grown = (total - middle).exp_()
    before, behind, through = (x.exp() for x in (middle, whole - middle, whole))  # (n, B, H, 1, K)
    q, k = q * grown, k / grown  # what is chunked may be what was given: never in place
    pairs = (q @ k.mT).tril_()
    states = states_of((k * behind).mT, v, decayed_by(through.mT), start)
    o, late = pairs @ v, reading(start)
    o[late] += (q * before)[late] @ states[:-1][late]
    return unchunked(o, length), states[-1].clone(), (start, q, k, v, grown, pairs, states, before, behind, through)


def _backward(
    d_rows: Tensor,
    d_last: Tensor | None,
    needed: Sequence[bool],
    chunk: int,
    start: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grown: Tensor,
    pairs: Tensor,
    states: Tensor,
    before: Tensor,
    behind: Tensor,
    through: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradients of all inputs; `q` and `k` are those that have their decays multiplied in."""
    length = d_rows.size(1)
    d_o = chunked(d_rows, v.size(3))
    grads = gradients_of((q * before).mT, d_o, decayed_by(through.mT), d_last, needed[4])
    late, early = reading(start), writing(d_last)
    of_end = of_ends(states, grads, -1).unsqueeze(-2)  # e^{G_c} is in all of the state after a chunk
    d_pairs = (d_o @ v.mT).tril_()
    d_q, d_k, d_v = d_pairs @ k, d_pairs.mT @ q, pairs.mT @ d_o
    d_q[late].addcmul_(d_o[late] @ states[:-1][late].mT, before[late])
    d_k[early].addcmul_(v[early] @ grads[1:][early].mT, behind[early])
    d_v[early] += (k * behind)[early] @ grads[1:][early]
    of_sums = (q * d_q).addcmul_(k, d_k, value=-1)  # the sums stay inside a chunk, where they cancel few digits
    d_g = sums_from(of_sums.mT).mT + of_end
    d_q, d_k = d_q.mul_(grown), d_k.div_(grown)
    return *(unchunked(x, length) for x in (d_q, d_k, d_v, d_g)), grads[0] if needed[4] else None


_run = recurrence("channel_decay", forward=_forward, backward=_backward, shapes=shapes_of)
