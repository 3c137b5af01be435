"""The recurrences of `zoo.scan`, token by token as their formulas have them."""

from __future__ import annotations

import torch
from torch import Tensor


def linear_scan(a: Tensor, b: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    h, rows = start, []
    for t in range(b.size(1)):
        h = a[:, t] * h + b[:, t]
        rows.append(h)
    return torch.stack(rows, dim=1), h


def decayed(q: Tensor, k: Tensor, v: Tensor, g: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """g (B, T, H) or (B, T, H, K); keys of fewer heads than values are repeated."""
    q, k = (x.repeat_interleave(v.size(2) // x.size(2), dim=2) for x in (q, k))
    g = g.unsqueeze(-1) if g.dim() == 3 else g
    state, rows = start, []
    for t in range(v.size(1)):
        state = g[:, t].exp().unsqueeze(-1) * state + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
        rows.append((state * q[:, t].unsqueeze(-1)).sum(-2))
    return torch.stack(rows, dim=1), state


def weighted(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, weight: Tensor, skip: Tensor, start: Tensor
) -> tuple[Tensor, Tensor]:
    """`decayed` that writes weight v, with skip v in its rows."""
    rows, last = decayed(q, k, weight.unsqueeze(-1) * v, g, start)
    return rows + skip.unsqueeze(-1) * v, last


def delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    state, rows = start, []
    for t in range(v.size(1)):
        state = g[:, t, :, None, None].exp() * state
        recalled = (state * k[:, t].unsqueeze(-1)).sum(-2)
        written = beta[:, t].unsqueeze(-1) * (v[:, t] - recalled)
        state = state + k[:, t].unsqueeze(-1) * written.unsqueeze(-2)
        rows.append((state * q[:, t].unsqueeze(-1)).sum(-2))
    return torch.stack(rows, dim=1), state


def selective_scan(x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    h, rows = start, []
    for t in range(x.size(1)):
        h = torch.exp(delta[:, t, :, None] * a) * h + (delta[:, t] * x[:, t]).unsqueeze(-1) * b[:, t].unsqueeze(-2)
        rows.append((h * c[:, t].unsqueeze(-2)).sum(-1))
    return torch.stack(rows, dim=1), h


def long_convolution(u: Tensor, kernel: Tensor) -> Tensor:
    rows = [(kernel[: t + 1].flip(0) * u[:, : t + 1]).sum(1) for t in range(u.size(1))]
    return torch.stack(rows, dim=1)
