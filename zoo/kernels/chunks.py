"""Time in chunks, as the matrix-state recurrences need it: inside a chunk they are products, between chunks they are a loop."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def chunk_size(chunk: int, length: int) -> int:
    """The chunk to compute with: a sequence shorter than one is one chunk."""
    if chunk < 1:
        raise ValueError(f"a chunk has at least one row, not {chunk}")
    return min(chunk, length)


def chunked(x: Tensor, size: int) -> Tensor:
    """(B, T, H, …) as chunks of rows (B, H, n, c, …); what is missing in the last chunk is 0."""
    missing = -x.size(1) % size
    if missing:
        x = F.pad(x, (0, 0) * (x.dim() - 2) + (0, missing))
    return x.unflatten(1, (-1, size)).movedim(3, 1).contiguous()


def unchunked(x: Tensor, length: int) -> Tensor:
    """(B, H, n, c, …) as rows (B, T, H, …)."""
    return x.movedim(1, 3).flatten(1, 2)[:, :length]


def decay_sums(g: Tensor) -> Tensor:
    """G, the sums of log-decays along the last dimension: in float64, for their differences lose the digits that are alike."""
    return g.cumsum(-1, dtype=torch.float64)


def decay_within(total: Tensor, dtype: torch.dtype) -> Tensor:
    """e^{G_t − G_s} for s ≤ t, else 0, of the sums G (…, c) of log-decays in a chunk.

    What lies in the future is masked before exp: its exponent is positive, and infinity times 0 is no number.
    """
    size = total.size(-1)
    future = torch.ones(size, size, dtype=torch.bool, device=total.device).triu_(1)
    return (total.unsqueeze(-1) - total.unsqueeze(-2)).to(dtype).masked_fill_(future, -torch.inf).exp_()


def sums_from(x: Tensor) -> Tensor:
    """Σ_{τ≥t} x_τ along the last dimension."""
    return x.flip(-1).cumsum(-1).flip(-1)


def states_before(add: Tensor, through: Tensor | None, start: Tensor) -> tuple[Tensor, Tensor]:
    """The state before each chunk, (B, H, n, K, W), and the last one: S ← through ⊙ S + add; without `through` it is 1."""
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


def of_ends(states: Tensor, last: Tensor, after: Tensor, *dims: int) -> Tensor:
    """Σ over `dims` of the state after each chunk times its gradient: what all of the decay in a chunk is worth."""
    inner = (states[:, :, 1:] * after[:, :, :-1]).sum(dims)
    return torch.cat([inner, (last.unsqueeze(2) * after[:, :, -1:]).sum(dims)], dim=2)
