"""The delta rule: a matrix as state that forgets, and that writes what a key does not already recall.

    S ← e^{g_t} S;   y_t = v_t − Sᵀ k_t;   S ← S + β_t k_t ⊗ y_t;   o_t = Sᵀ q_t.

Inside a chunk, with D as in `zoo.kernels.scalar_decay`, N = tril(K Kᵀ ⊙ D, −1) and X = (I + N diag β)⁻¹,

    Y = X V − W S,   W = X (e^G ⊙ K),   o = e^G ⊙ (Q S) + (Q Kᵀ ⊙ D) β Y,
    S ← (e^{G_c} I − K̂ᵀ W) S + K̂ᵀ X V,   K̂ = β e^{G_c − G} ⊙ K,

so that one product per chunk is left to the loop. X comes from a triangular solve: a series of products would lose all digits
where keys are nearly equal. It is made once and multiplied with: a solve costs several times a product of the same size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.kernels.autocast import at_least_single
from zoo.kernels.chunks import (
    Carry,
    chunk_size,
    chunked,
    decay_sums,
    decay_within,
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
from zoo.kernels.given import bounded, check_matrix_state
from zoo.kernels.recurrence import recurrence


def delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    g: Tensor | None = None,
    start: Tensor | None = None,
    *,
    chunk: int = 16,
) -> tuple[Tensor, Tensor]:
    """o (B, T, H, V) and the last S (B, H, K, V) of q, k (B, T, H, K), v (B, T, H, V), β and log-decays g ≤ 0 (B, T, H).

    |k| ≤ 1 and 0 ≤ β ≤ 2 keep it stable. Without g nothing decays. S_{−1} is `start`, or 0. It is computed in at least float32;
    o has the type of v, S does not.
    """
    check_matrix_state(q, k, v, start, beta=beta, g=g)
    g = torch.zeros_like(beta) if g is None else bounded(g)
    wide_q, wide_k, wide_v, beta, g = at_least_single(q, k, v, beta, g)
    begin = None if start is None else start.to(wide_v.dtype)
    o, last = _run(wide_q, wide_k, wide_v, beta, g, begin, chunk=chunk)
    return o.to(v.dtype), last


def _forward(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, start: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
    """o, the last state, and what backward needs. What is done to queries and to keys is done to both at once."""
    length, size = v.size(1), chunk_size(chunk, v.size(1))
    both = torch.stack([in_chunks(q, size), in_chunks(k, size)], dim=3)  # (n, B, H, 2, c, K)
    k, v = both[..., 1, :, :], chunked(v, size)
    beta, total = chunked(beta, size).unsqueeze(-1), decay_sums(chunked(g, size))
    whole = total[..., -1:]
    into, rest, through = (x.to(v.dtype).exp().unsqueeze(-1) for x in (total, whole - total, whole))
    within = decay_within(total, v.dtype)
    pairs, alike = _apart((both.flatten(-3, -2) @ k.mT).unflatten(-2, (2, -1)) * within.unsqueeze(-3))
    alike = alike.tril(-1)  # N
    inverse = _inverse(alike * beta.mT)  # X
    asked, recalled = _apart(both * into.unsqueeze(-3))
    reader = torch.cat([asked, inverse @ recalled], dim=-2)  # e^G ⊙ Q, and W
    kept = k * (beta * rest)  # K̂
    turn = torch.diag_embed(through.squeeze(-1).expand(*through.shape[:-2], k.size(-1)))
    turn = turn - kept.mT @ reader[..., size:, :]
    y = inverse @ v
    states = states_of(kept.mT, y, _turned_by(turn), start)
    late = reading(start)
    read, seen = (reader[late] @ states[:-1][late]).split(size, dim=-2)
    y[late] -= seen
    o = pairs @ (beta * y)
    o[late] += read
    for_backward = (start, both, v, beta, y, o, states, pairs, alike, inverse, reader, within, into, rest, turn)
    return unchunked(o, length), states[-1].clone(), for_backward


def _apart(both: Tensor) -> tuple[Tensor, Tensor]:
    """The halves of a tensor (…, 2, c, ·) that belong to queries and to keys."""
    return both[..., 0, :, :], both[..., 1, :, :]


def _inverse(system: Tensor) -> Tensor:
    """(I + M)⁻¹ of M (…, c, c), which has nothing on and above the diagonal.

    In float64, which costs no more: where keys are nearly equal, a product with an inverse of float32 would lose two digits.
    """
    identity = torch.eye(system.size(-1), dtype=torch.float64, device=system.device).expand_as(system)
    return torch.linalg.solve_triangular(system.double(), identity, upper=False, unitriangular=True).to(system.dtype)


def _turned_by(turn: Tensor) -> Carry:
    """The function that carries a state through a chunk: it multiplies by a matrix (n, B, H, K, K)."""

    def carry(i: int, add: Tensor, state: Tensor) -> Tensor:
        return add.flatten(0, 1).baddbmm_(turn[i].flatten(0, 1), state.flatten(0, 1))

    return carry


def _backward(
    d_rows: Tensor,
    d_last: Tensor | None,
    needed: Sequence[bool],
    chunk: int,
    start: Tensor | None,
    both: Tensor,
    v: Tensor,
    beta: Tensor,
    y: Tensor,
    o: Tensor,
    states: Tensor,
    pairs: Tensor,
    alike: Tensor,
    inverse: Tensor,
    reader: Tensor,
    within: Tensor,
    into: Tensor,
    rest: Tensor,
    turn: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradients of all inputs; `grads` are those of o and of −Y, stacked as queries and keys are."""
    k, size, length = both[..., 1, :, :], v.size(-2), d_rows.size(1)
    grads = v.new_empty(*v.shape[:-2], 2, *v.shape[-2:])
    d_o, of_y = _apart(grads)
    d_o.copy_(in_chunks(d_rows, size))
    written = beta * y
    d_written = pairs.mT @ d_o  # through o alone
    torch.mul(d_written, -beta, out=of_y)
    of_states = gradients_of(reader.mT, grads.flatten(-3, -2), _turned_by(turn.mT), d_last, needed[5])
    late, early = reading(start), writing(d_last)
    after = of_states[1:][early]
    d_written[early] += (k[early] @ after).mul_(rest[early])  # and through the state after the chunk
    d_y = inverse.mT @ (beta * d_written)  # also the gradient of v
    torch.neg(d_y, out=of_y)
    d_written.sub_(alike.mT @ d_y)  # and through later y of the chunk
    d_pairs = (grads.flatten(-3, -2) @ written.mT).unflatten(-2, (2, -1)).mul_(within.unsqueeze(-3))
    d_pairs[..., 1, :, :].tril_(-1)
    d_pairs = d_pairs.flatten(-3, -2)  # and of N
    of_y_and_v = (d_o * o).addcmul_(d_y, v, value=-1).sum(-1)
    d_both = d_pairs @ k
    d_both[late] += grads[late].mul_(into[late].unsqueeze(-3)).flatten(-3, -2) @ states[:-1][late].mT
    d_q, d_k = d_both.split(size, dim=-2)
    d_k += d_pairs.mT @ both.flatten(-3, -2)  # where it writes
    d_k[early] += written[early].mul_(rest[early]) @ after.mT
    d_beta = (y * d_written).sum(-1)
    # e^{G_t} is in all of o_t, e^{−G_t} wherever v_t is, and e^{G_c} in the state after a chunk.
    d_g = sums_from(of_y_and_v) + of_ends(states, of_states, -2, -1).unsqueeze(-1)
    return *(unchunked(x, length) for x in (d_q, d_k, d_y, d_beta, d_g)), of_states[0] if needed[5] else None


_run = recurrence("delta_rule", forward=_forward, backward=_backward, shapes=shapes_of)
