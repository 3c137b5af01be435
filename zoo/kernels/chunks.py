"""Time in chunks, as the matrix-state recurrences need it: inside a chunk they are products, between chunks they are a loop.

Chunks come first, (n, B, H, c, …), so that what belongs to all chunks but the last, or but the first, is one block of memory:
the states lie in one tensor, into which products are written and along which they are carried in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def chunk_size(chunk: int, length: int) -> int:
    """The chunk to compute with: a sequence shorter than one is one chunk."""
    if chunk < 1:
        raise ValueError(f"a chunk has at least one row, not {chunk}")
    return min(chunk, length)


def in_chunks(x: Tensor, size: int) -> Tensor:
    """(B, T, H, …) seen as chunks of rows (n, B, H, c, …); what is missing in the last chunk is 0."""
    missing = -x.size(1) % size
    if missing:
        x = F.pad(x, (0, 0) * (x.dim() - 2) + (0, missing))
    return x.unflatten(1, (-1, size)).movedim((1, 3), (0, 2))


def chunked(x: Tensor, size: int) -> Tensor:
    """`in_chunks` as a copy in one block of memory."""
    return in_chunks(x, size).contiguous()


def unchunked(x: Tensor, length: int) -> Tensor:
    """(n, B, H, c, …) as rows (B, T, H, …)."""
    return x.movedim((0, 2), (1, 3)).flatten(1, 2)[:, :length]


def decay_sums(g: Tensor) -> Tensor:
    """G, the sums of log-decays along the last dimension: in float64, for their differences lose the digits that are alike."""
    return g.cumsum(-1, dtype=torch.float64)


def decay_within(total: Tensor, dtype: torch.dtype) -> Tensor:
    """e^{G_t − G_s} for s ≤ t, else 0, of the sums G (…, c) of log-decays in a chunk.

    What lies in the future has a positive exponent: −∞ takes its place. A power of 2 takes a quarter of the time of exp, and no
    more where it is 0, which takes exp ten times as long.
    """
    exponents = total / math.log(2)
    future = exponents.new_full((total.size(-1), total.size(-1)), -torch.inf, dtype=dtype).triu_(1)
    return (exponents.unsqueeze(-1) - exponents.unsqueeze(-2)).to(dtype).clamp_(max=future).exp2_()


def sums_from(x: Tensor) -> Tensor:
    """Σ_{τ≥t} x_τ along the last dimension."""
    return x.flip(-1).cumsum(-1).flip(-1)


def reading(start: Tensor | None) -> slice:
    """The chunks that read a state: not the first one, if nothing came before it."""
    return slice(1 if start is None else 0, None)


def writing(d_last: Tensor | None) -> slice:
    """The chunks after which the state has a gradient: not the last one, if the last state is not used."""
    return slice(None, -1 if d_last is None else None)


# (i, add, state): `add` and what chunk i leaves of a state; see `states_of`
Carry = Callable[[int, Tensor, Tensor], Tensor]


def states_of(left: Tensor, right: Tensor, carry: Carry, start: Tensor | None) -> Tensor:
    """The state before each chunk and after the last one, (n + 1, B, H, K, V): S_{i+1} = S_i carried + left_i right_i.

    `carry` works in the memory of `add`.
    """
    states = left.new_empty(left.size(0) + 1, *left.shape[1:-1], right.size(-1))
    _set(states[0], start)
    _product_into(states[1:], left, right)
    each = states.unbind()
    for i in range(reading(start).start, left.size(0)):
        carry(i, each[i + 1], each[i])
    return states


def gradients_of(left: Tensor, right: Tensor, carry: Carry, last: Tensor | None, of_first: bool) -> Tensor:
    """The gradients of these states, by the same loop from the end; the first state's only if it is wanted."""
    grads = left.new_empty(left.size(0) + 1, *left.shape[1:-1], right.size(-1))
    _set(grads[-1], last)
    first = 0 if of_first else 1
    _product_into(grads[first:-1], left[first:], right[first:])
    each = grads.unbind()
    for i in reversed(range(first, left.size(0))[writing(last)]):
        carry(i, each[i], each[i + 1])
    return grads


def _set(place: Tensor, value: Tensor | None) -> None:
    if value is None:
        place.zero_()
    else:
        place.copy_(value)


def _product_into(out: Tensor, left: Tensor, right: Tensor) -> None:
    torch.bmm(left.flatten(0, -3), right.flatten(0, -3), out=out.flatten(0, -3))


def accumulate(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right in place to a block of memory."""
    total.flatten(0, -3).baddbmm_(left.flatten(0, -3), right.flatten(0, -3))


def decayed_by(through: Tensor | None) -> Carry:
    """The function that carries a state through a chunk: it multiplies by `through` (n, …); None is 1."""

    each = () if through is None else through.unbind()

    def carry(i: int, add: Tensor, state: Tensor) -> Tensor:
        return add.addcmul_(state, each[i]) if each else add.add_(state)

    return carry


FEW = 1 << 18  # numbers: products of so many stay in the cache


def of_ends(states: Tensor, grads: Tensor, *dims: int) -> Tensor:
    """Σ over `dims` of the state after each chunk times its gradient: the gradient of G_c, by which all of that state is scaled.

    A few chunks at a time, as their products stay in the cache.
    """
    few = max(1, FEW // states[0].numel())
    pairs = zip(states[1:].split(few), grads[1:].split(few), strict=True)
    return torch.cat([(state * grad).sum(dims) for state, grad in pairs])


def shapes_of(q: Tensor, k: Tensor, v: Tensor, *_: Tensor | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of the rows and of the last state of a matrix as state."""
    return tuple(v.shape), (v.size(0), v.size(2), k.size(3), v.size(3))
