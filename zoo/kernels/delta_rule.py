"""The delta rule: a matrix as state that forgets, and that writes what a key does not already recall.

    S ← e^{g_t} S;   y_t = v_t − Sᵀ k_t;   S ← S + β_t k_t ⊗ y_t;   o_t = Sᵀ q_t.

Inside a chunk, with D as in `zoo.kernels.scalar_decay`, N = tril(K Kᵀ ⊙ D, −1) and X = (I + N diag β)⁻¹,

    Y = X V − W S,   W = X (e^G ⊙ K),   o = e^G ⊙ (Q S) + (Q Kᵀ ⊙ D) β Y,
    S ← (e^{G_c} I − K̂ᵀ W) S + K̂ᵀ X V,   K̂ = β e^{G_c − G} ⊙ K,

so that one product per chunk is left to the loop. X comes from a triangular solve: a series of products would lose all digits
where keys are nearly equal.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.autocast import at_least_single, without_autocast
from zoo.kernels.chunks import chunk_size, chunked, decay_sums, decay_within, of_ends, sums_from, unchunked


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
    g = torch.zeros_like(beta) if g is None else g
    wide_q, wide_k, wide_v, beta, g = at_least_single(q, k, v, beta, g)
    begin = wide_v.new_zeros(v.size(0), *k.shape[2:], v.size(3)) if start is None else start.to(wide_v.dtype)
    with without_autocast(v):
        if torch.compiler.is_compiling():
            o, last = _forward(wide_q, wide_k, wide_v, beta, g, begin, chunk)[:2]
        else:
            o, last = _DeltaRule.apply(wide_q, wide_k, wide_v, beta, g, begin, chunk)
    return o.to(v.dtype), last


def _forward(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, start: Tensor, chunk: int
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """o, the last state, and what backward needs."""
    length, size = v.size(1), chunk_size(chunk, v.size(1))
    q, k, v = (chunked(x, size) for x in (q, k, v))
    beta, total = chunked(beta, size).unsqueeze(-1), decay_sums(chunked(g, size))
    whole = total[..., -1:]
    into, rest, through = (x.to(v.dtype).exp().unsqueeze(-1) for x in (total, whole - total, whole))
    within = decay_within(total, v.dtype)
    alike = ((k @ k.mT) * within).tril(-1)  # N
    pairs = (q @ k.mT) * within
    system = alike * beta.mT  # unitriangular: what is on the diagonal is not read
    both = torch.linalg.solve_triangular(system, torch.cat([k * into, v], dim=-1), upper=False, unitriangular=True)
    recalled, values = both.split([k.size(-1), v.size(-1)], dim=-1)  # W and X V
    kept = k * (beta * rest)  # K̂
    turn = torch.diag_embed(through.squeeze(-1).expand(*through.shape[:-2], k.size(-1))) - kept.mT @ recalled
    states, last = _states(turn, kept.mT @ values, start)
    y = values - recalled @ states
    o = (q @ states) * into + pairs @ (beta * y)
    return (
        unchunked(o, length),
        last,
        (q, k, v, beta, y, o, states, last, pairs, alike, system, recalled, within, into, rest, turn),
    )


def _states(turn: Tensor, add: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """The state before each chunk (B, H, n, K, V) and the last one: S ← turn S + add."""
    states, state = [], start
    for i in range(add.size(2)):
        states.append(state)
        state = add[:, :, i] + turn[:, :, i] @ state
    return torch.stack(states, dim=2), state


class _DeltaRule(torch.autograd.Function):
    """Saves what it is given in chunks, the state before each chunk, and some c numbers per token."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, start: Tensor, chunk: int
    ) -> tuple[Tensor, Tensor]:
        o, last, kept = _forward(q, k, v, beta, g, start, chunk)
        ctx.save_for_backward(*kept)
        ctx.length = v.size(1)
        return o, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_rows: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        with without_autocast(d_rows):
            return _backward(d_rows, d_last, ctx.length, *ctx.saved_tensors)


def _backward(
    d_rows: Tensor,
    d_last: Tensor,
    length: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    y: Tensor,
    o: Tensor,
    states: Tensor,
    last: Tensor,
    pairs: Tensor,
    alike: Tensor,
    system: Tensor,
    recalled: Tensor,
    within: Tensor,
    into: Tensor,
    rest: Tensor,
    turn: Tensor,
) -> tuple[Tensor | None, ...]:
    d_o = chunked(d_rows, v.size(3))
    d_o_into, written = d_o * into, beta * y
    d_written = pairs.mT @ d_o  # through o alone; `written` is β y
    read = (q.mT @ d_o_into).sub_(recalled.mT @ (beta * d_written))
    after, d_start = _gradients_after(turn, read, d_last)
    d_written.add_((k @ after).mul_(rest))  # and through the state after the chunk
    d_y = torch.linalg.solve_triangular(
        system.mT, beta * d_written, upper=True, unitriangular=True
    )  # also the gradient of v
    d_written.sub_(alike.mT @ d_y)  # and through later y of the chunk
    d_pairs = (d_o @ written.mT).mul_(within)
    d_alike = (d_y @ written.mT).mul_(within).tril_(-1).neg_()
    d_q = (d_pairs @ k).add_(d_o_into @ states.mT)
    d_k = (d_alike @ k).sub_((d_y * into) @ states.mT)  # where it asks
    d_k.add_(d_alike.mT @ k).add_(d_pairs.mT @ q).add_((written * rest) @ after.mT)  # where it writes
    d_beta = (y * d_written).sum(-1)
    of_end = of_ends(states, last, after, -2, -1).unsqueeze(-1)
    # e^{G_t} is in all of o_t, e^{−G_t} wherever v_t is, and e^{G_c} in the state after a chunk.
    d_g = sums_from((d_o * o).sum(-1) - (d_y * v).sum(-1)) + of_end
    return *(unchunked(x, length) for x in (d_q, d_k, d_y, d_beta, d_g)), d_start, None


def _gradients_after(turn: Tensor, add: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the state after each chunk, and that of the first state."""
    grads, grad = [], last
    for i in reversed(range(add.size(2))):
        grads.append(grad)
        grad = add[:, :, i] + turn[:, :, i].mT @ grad
    return torch.stack(grads[::-1], dim=2), grad
