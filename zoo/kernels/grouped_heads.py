"""Grouped-query attention: several query heads attend with one key head."""

from __future__ import annotations

from torch import Tensor


def repeat_heads(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """k and v with one head per head of q: each key head is repeated for the query heads of its group."""
    groups = q.size(1) // k.size(1)
    if groups == 1:
        return k, v
    return k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
