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
from zoo.kernels.chunks import chunk_size, chunked, decay_sums, decay_within, sums_from, unchunked


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
    """What the log-decays of all chunks (B, Hk, n, R, c) come to; None of each without decay."""

    within: Tensor | None  # D
    into: Tensor | None  # e^G, what is left of the state before the chunk: (…, c, 1)
    rest: Tensor | None  # e^{G_c − G}, what will be left at the chunk's end: (…, c, 1)
    through: Tensor | None  # e^{G_c}: (B, Hk, n, 1, R, 1)


def _decays(g: Tensor | None, heads: int, size: int) -> _Decays:
    if g is None:
        return _Decays(None, None, None, None)
    if g.dim() == 1:  # (H,)
        each = g.view(1, heads, 1, -1, 1)
        total = each.double() * torch.arange(1, size + 1, device=g.device)
    else:
        total = decay_sums(chunked(g, size).unflatten(1, (heads, -1)).transpose(2, 3))
    whole = total[..., -1:]
    into, rest, through = (x.to(g.dtype).exp() for x in (total, whole - total, whole))
    return _Decays(decay_within(total, g.dtype), into.unsqueeze(-1), rest.unsqueeze(-1), through.unsqueeze(3))


def _side_by_side(x: Tensor) -> Tensor:
    """The heads (…, R, c, V) that share a head of keys, next to each other: (…, c, R·V)."""
    return x.squeeze(-3) if x.size(-3) == 1 else x.transpose(-3, -2).flatten(-2)


def _apart(x: Tensor, count: int) -> Tensor:
    """The reverse of `_side_by_side`."""
    return x.unsqueeze(-3) if count == 1 else x.unflatten(-1, (count, -1)).transpose(-3, -2)


def _scaled(x: Tensor, factor: Tensor | None) -> Tensor:
    return x if factor is None else x * factor


def _within(scores: Tensor, within: Tensor | None) -> Tensor:
    """Q Kᵀ ⊙ D (…, R, c, c)."""
    return scores.tril().unsqueeze(-3) if within is None else scores.unsqueeze(-3) * within


def states_before(add: Tensor, through: Tensor | None, start: Tensor) -> tuple[Tensor, Tensor]:
    """The state before each chunk, (B, H, n, K, W), and the last one: S ← through ⊙ S + add."""
    states, state = [], start
    for i in range(add.size(2)):
        states.append(state)
        state = add[:, :, i] + state if through is None else torch.addcmul(add[:, :, i], state, through[:, :, i])
    return torch.stack(states, dim=2), state


def gradients_after(add: Tensor, through: Tensor | None, last: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the state after each chunk, and that of the first state: the same from the end."""
    grads, grad = [], last
    for i in reversed(range(add.size(2))):
        grads.append(grad)
        grad = add[:, :, i] + grad if through is None else torch.addcmul(add[:, :, i], grad, through[:, :, i])
    return torch.stack(grads[::-1], dim=2), grad


def _joined(state: Tensor, heads: int) -> Tensor:
    """(B, H, K, V) as (B, Hk, K, R·V)."""
    return _side_by_side(state.unflatten(1, (heads, -1)))


def _state_of(joined: Tensor, count: int) -> Tensor:
    """The reverse of `_joined`."""
    return _apart(joined, count).flatten(1, 2)


def _rows(through: Tensor | None, width: int) -> Tensor | None:
    """e^{G_c} (B, Hk, n, 1, R, 1) for every column of R·V: (B, Hk, n, 1, R·V)."""
    return None if through is None else through.expand(*through.shape[:-1], width).flatten(-2)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, start: Tensor, chunk: int
) -> tuple[Tensor, Tensor, tuple[Any, ...]]:
    """o, the last state, and what backward needs."""
    length, heads, count = v.size(1), k.size(2), v.size(2) // k.size(2)
    size = chunk_size(chunk, length)
    q, k = chunked(q, size), chunked(k, size)
    v = chunked(v, size).unflatten(1, (heads, count)).transpose(2, 3)  # (B, Hk, n, R, c, V)
    decays = _decays(g, heads, size)
    pairs = _within(q @ k.mT, decays.within)
    through = _rows(decays.through, v.size(-1))
    if through is not None:
        through = through.expand(-1, -1, v.size(2), -1, -1)
    states, last = states_before(k.mT @ _side_by_side(_scaled(v, decays.rest)), through, _joined(start, heads))
    o = _scaled(_apart(q @ states, count), decays.into) + pairs @ v
    rows = unchunked(o.transpose(2, 3).flatten(1, 2), length)
    return rows, _state_of(last, count), (q, k, v, o, pairs, states, last, *decays)


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
    pairs: Tensor,
    states: Tensor,
    last: Tensor,
    *of_decays: Tensor | None,
) -> tuple[Tensor | None, ...]:
    decays = _Decays(*of_decays)
    heads, count, size = q.size(1), v.size(3), v.size(4)
    d_o = chunked(d_rows, size).unflatten(1, (heads, count)).transpose(2, 3)
    through = _rows(decays.through, v.size(-1))
    if through is not None:
        through = through.expand(-1, -1, v.size(2), -1, -1)
    reading = _side_by_side(_scaled(d_o, decays.into))  # the gradient of Q S
    after, d_start = gradients_after(q.mT @ reading, through, _joined(d_last, heads))
    d_pairs = d_o @ v.mT
    d_scores = _sum_heads(d_pairs.tril() if decays.within is None else d_pairs.mul_(decays.within))
    writing = _side_by_side(_scaled(v, decays.rest))
    d_q = torch.matmul(d_scores, k).add_(reading @ states.mT)
    d_k = torch.matmul(d_scores.mT, q).add_(writing @ after.mT)
    d_v = torch.matmul(pairs.mT, d_o).add_(_scaled(_apart(k @ after, count), decays.rest))
    d_g = _gradient_of_decay(d_o, o, d_v, v, states, last, after, length) if for_g else None
    d_rows_of_v = unchunked(d_v.transpose(2, 3).flatten(1, 2), length)
    return unchunked(d_q, length), unchunked(d_k, length), d_rows_of_v, d_g, _state_of(d_start, count), None


def _sum_heads(x: Tensor) -> Tensor:
    return x.squeeze(-3) if x.size(-3) == 1 else x.sum(-3)


def _gradient_of_decay(
    d_o: Tensor, o: Tensor, d_v: Tensor, v: Tensor, states: Tensor, last: Tensor, after: Tensor, length: int
) -> Tensor:
    """e^{G_t} is in all of o_t and e^{−G_t} wherever v_t is; the state after a chunk has e^{G_c}.

    The sums that lead from G to g stay inside a chunk: over all tokens they would cancel digits away.
    """
    count = v.size(3)
    of_sums = (d_o * o).sum(-1) - (d_v * v).sum(-1)  # (B, Hk, n, R, c)
    ends = torch.cat([states[:, :, 1:], last.unsqueeze(2)], dim=2)
    of_end = (ends * after).sum(-2).unflatten(-1, (count, -1)).sum(-1)
    return unchunked((sums_from(of_sums) + of_end.unsqueeze(-1)).transpose(2, 3).flatten(1, 2), length)
