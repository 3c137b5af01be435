"""Attending with scores: a sum of factors, or a dense function.

Masking comes last, here: scores are carried unmasked, so that no weight on them can turn −∞ into anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from zoo.kernels.blocked_attention import Term, attend_by_rows
from zoo.kernels.grouped_heads import repeat_heads
from zoo.kernels.null_logit import attend_null, is_fused
from zoo.kernels.shared_pattern import attend_shared, shares


class Factors(NamedTuple):
    """The sum of the terms. No T×T matrix of it is ever kept.

    `null` is a logit that takes part in the softmax and carries no value: a tensor that broadcasts against (B, H, T, 1),
    such as (H, 1, 1). A row may then attend to less than its whole past.
    """

    terms: tuple[Term, ...]
    null: Tensor | None = None


class Dense(NamedTuple):
    """Scores that do not factor: `block(first, last, keys, *tables)` answers (B, H, last − first, keys) for those rows.

    `tables` (…, T, S) are handed over cut to the rows of the block: they are cut once, not sliced anew.
    With `weights`, the block answers what is attended with instead of logits: no softmax follows, and the future counts 0,
    whatever the block says of it. `past_only` is the mask that its own softmax needs.
    """

    block: Callable[..., Tensor]
    num_rows: int  # T
    num_keys: int  # S
    tables: tuple[Tensor, ...] = ()
    rows_at_once: int = 128  # the most that `block` is asked for
    weights: bool = False


Scores = Factors | Dense

FEW_ROWS = 16  # new tokens after a cache: joining all keys would cost more than attending to them


def attend(scores: Scores, v: Tensor, dropout: float = 0.0) -> Tensor:
    """softmax(mask(scores)) v: (B, H, T, d), for v (B, Hkv, S, d). Query row r is at position S − T + r."""
    if isinstance(scores, Dense):
        return _attend_dense(scores, v, dropout)
    if scores.null is not None:
        return _attend_null(scores, scores.null, v, dropout)
    if len(scores.terms) == 1:
        return _attend_fused(*scores.terms[0], v, dropout)
    if v.device.type != "cpu" or torch.compiler.is_compiling():
        return _attend_fused(*_joined(scores), v, dropout)
    if not torch.is_grad_enabled() and not dropout and scores.terms[0].q.size(2) <= FEW_ROWS:
        return _attend_few(scores, v)
    return attend_by_rows(scores.terms, v, dropout)


def _weighted(x: Tensor, weight: float | Tensor) -> Tensor:
    """x times a weight, in the type of x: under autocast, weights are wider than what they weigh."""
    if isinstance(weight, Tensor):
        return x * weight.to(x.dtype)
    return x if weight == 1.0 else x * weight


def _scaled(term: Term) -> tuple[Tensor, Tensor, float]:
    """Weighted queries and keys, and a scale of their product: where both weights are numbers, nothing is copied."""
    q, k, query, key = term
    if isinstance(query, float) and isinstance(key, float):
        return q, k, query * key
    return _weighted(q, query), _weighted(k, key), 1.0


def _attend_fused(
    q: Tensor, k: Tensor, query: float | Tensor, key: float | Tensor, v: Tensor, dropout: float
) -> Tensor:
    """Attend with one term, by torch's fused kernel, or by the one for patterns that many layers share."""
    q, k, scale = _scaled(Term(q, k, query, key))
    if not dropout and shares(q, k, v):
        return attend_shared(q, k, v, scale)
    length, keys, groups = q.size(2), k.size(2), q.size(1) // k.size(1)
    if groups > 1 and length == 1:  # the heads of a group as rows, so that the cache is not copied for each of them
        rows = q.reshape(q.size(0), k.size(1), groups, q.size(3))
        return F.scaled_dot_product_attention(rows, k, v, dropout_p=dropout, scale=scale).view(
            *q.shape[:-1], v.size(-1)
        )
    k, v = repeat_heads(q, k, v)
    mask = None
    if 1 < length < keys:  # a chunk after a cache
        mask = torch.ones(length, keys, dtype=torch.bool, device=q.device).tril_(keys - length)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=length == keys and length > 1, scale=scale
    )


def _attend_few(scores: Factors, v: Tensor) -> Tensor:
    """Attend with a few rows after a cache: the terms' scores are added up, and the keys stay where they are."""
    heads, kv_heads = scores.terms[0].q.size(1), v.size(1)
    rows, keys = scores.terms[0].q.size(2), v.size(2)
    total: Tensor | None = None
    for q, k, query, key in scores.terms:
        # The query heads of one key head as rows of one matrix.
        part = _weighted(q, query).unflatten(1, (kv_heads, -1)).flatten(2, 3) @ k.mT
        part = _weighted(part, key.mT if isinstance(key, Tensor) and key.dim() else key)
        total = part if total is None else total.add_(part)
    assert total is not None
    _hide_future(total.unflatten(2, (heads // kv_heads, rows)), 0, keys - rows)
    return (total.softmax(dim=-1) @ v).unflatten(2, (heads // kv_heads, rows)).flatten(1, 2)


def _joined(scores: Factors) -> Term:
    """All terms as one, their weighted heads concatenated."""
    return Term(
        torch.cat([_weighted(term.q, term.query) for term in scores.terms], dim=-1),
        torch.cat([_weighted(term.k, term.key) for term in scores.terms], dim=-1),
    )


def _attend_null(scores: Factors, null: Tensor, v: Tensor, dropout: float) -> Tensor:
    """Attend with a null logit: by the fused kernel where it can, else by blocks of rows."""
    if fuses(scores, v) and not dropout:
        q, k, scale = _scaled(scores.terms[0])
        return attend_null(q, k, v, null, scale)
    return _attend_dense(dense_of(scores), v, dropout)


def fuses(scores: Factors, v: Tensor) -> bool:
    """Whether the fused kernel attends with these factors and their null logit."""
    return len(scores.terms) == 1 and is_fused(scores.terms[0].q, scores.terms[0].k, v)


def dense_of(scores: Factors) -> Dense:
    """Factors with a null logit as weights that a block of rows is made of at a time."""
    terms = [(_weighted(term.q, term.query), _weighted(term.k, term.key)) for term in scores.terms]
    (batch, heads, rows, _), (kv_heads, keys) = terms[0][0].shape, terms[0][1].shape[1:3]
    assert scores.null is not None
    null = scores.null.expand(batch, heads, rows, 1)

    def block(first: int, last: int, seen: int) -> Tensor:
        total: Tensor | None = None
        for q, k in terms:
            grouped = q[:, :, first:last].unflatten(1, (kv_heads, -1)).flatten(2, 3)
            part = grouped @ k[:, :, :seen].mT
            total = part if total is None else total + part
        assert total is not None
        logits = past_only(total.unflatten(2, (heads // kv_heads, -1)).flatten(1, 2))
        return torch.cat([null[:, :, first:last].to(logits.dtype), logits], dim=-1).softmax(dim=-1)[..., 1:]

    return Dense(block, rows, keys, weights=True)


def past_only(scores: Tensor, fill: float = float("-inf")) -> Tensor:
    """A block of scores (…, rows, keys) with `fill` where a key is ahead of its row; the last row sees all keys."""
    rows, keys = scores.shape[-2:]
    return scores.masked_fill(
        torch.ones(rows, keys, dtype=torch.bool, device=scores.device).triu(keys - rows + 1), fill
    )


def _hide_future(scores: Tensor, first: int, offset: int) -> Tensor:
    """Mask (…, rows, keys) in place, for rows from `first` and keys up to the last row's own."""
    rows = scores.size(-2)
    own = scores[..., offset + first :]
    own.masked_fill_(torch.ones(rows, rows, dtype=torch.bool, device=scores.device).triu_(1), float("-inf"))
    return scores


def _attend_dense(scores: Dense, v: Tensor, dropout: float) -> Tensor:
    """Attend with dense scores by blocks of rows, each of which is made again in backward."""
    offset = scores.num_keys - scores.num_rows

    def rows(first: int, last: int, *tables: Tensor) -> Tensor:
        block = scores.block(first, last, offset + last, *tables)  # (B, H, rows, keys)
        groups = block.size(1) // v.size(1)
        weights = past_only(block, 0.0).to(v.dtype) if scores.weights else past_only(block).softmax(dim=-1)
        weights = F.dropout(weights, dropout, dropout > 0)
        mixed = weights.unflatten(1, (-1, groups)).flatten(2, 3) @ v[:, :, : offset + last]
        return mixed.unflatten(2, (groups, -1)).flatten(1, 2)

    size, blocks = scores.rows_at_once, []
    cuts = [table.split(size, dim=-2) for table in scores.tables]
    for i, first in enumerate(range(0, scores.num_rows, size)):
        given = (first, min(first + size, scores.num_rows), *(cut[i] for cut in cuts))
        blocks.append(checkpoint(rows, *given, use_reentrant=False) if torch.is_grad_enabled() else rows(*given))
    return torch.cat(blocks, dim=2)
