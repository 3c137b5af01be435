"""What attention attends with: unmasked scores, as factors or as a dense function, and attending with them.

Masking is done here and comes last: a score is carried unmasked, so that no weight on it can turn −∞ into anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint


class Term(NamedTuple):
    """(query ⊙ q) (key ⊙ k)ᵀ. Weights are numbers, or tensors (…, 1) that broadcast against q or k."""

    q: Tensor  # (B, H, T, d)
    k: Tensor  # (B, Hkv, S, d)
    query: float | Tensor = 1.0
    key: float | Tensor = 1.0


class Factors(NamedTuple):
    """The sum of the terms. No T×T matrix of it is ever kept."""

    terms: tuple[Term, ...]


class Dense(NamedTuple):
    """Scores that do not factor: `block(first, last, keys, *tables)` answers (B, H, last − first, keys) for those rows.

    `tables` (…, T, S) are handed over cut to the rows of the block: they are cut once, not sliced anew.
    """

    block: Callable[..., Tensor]
    num_rows: int  # T
    num_keys: int  # S
    tables: tuple[Tensor, ...] = ()


Scores = Factors | Dense

ROWS = 128  # query rows at a time
FEW_ROWS = 16  # new tokens behind a cache: joining all keys would cost more than attending to them
BLOCK_NUMBERS = 1 << 20  # scores at a time: a few MB stay in the cache


def attend(scores: Scores, v: Tensor, dropout: float = 0.0) -> Tensor:
    """softmax(mask(scores)) v: (B, H, T, d), for v (B, Hkv, S, d). Query row r is at position S − T + r."""
    if isinstance(scores, Dense):
        return _attend_dense(scores, v, dropout)
    if len(scores.terms) == 1:
        return _attend_fused(*scores.terms[0], v, dropout)
    if v.device.type != "cpu" or torch.compiler.is_compiling():
        return _attend_fused(*_joined(scores), v, dropout)
    if not torch.is_grad_enabled() and not dropout and scores.terms[0].q.size(2) <= FEW_ROWS:
        return _attend_few(scores, v)
    return _attend_blocks(scores, v, dropout)


def _weighted(x: Tensor, weight: float | Tensor) -> Tensor:
    """In the type of x: under autocast, weights are wider than what they weigh."""
    if isinstance(weight, Tensor):
        return x * weight.to(x.dtype)
    return x if weight == 1.0 else x * weight


def _attend_fused(
    q: Tensor, k: Tensor, query: float | Tensor, key: float | Tensor, v: Tensor, dropout: float
) -> Tensor:
    scale = 1.0
    if isinstance(query, float) and isinstance(key, float):
        scale = query * key
    else:
        q, k = _weighted(q, query), _weighted(k, key)
    length, keys, groups = q.size(2), k.size(2), q.size(1) // k.size(1)
    if groups > 1 and length == 1:  # the heads of a group as rows, so that the cache is not copied for each of them
        rows = q.reshape(q.size(0), k.size(1), groups, q.size(3))
        return F.scaled_dot_product_attention(rows, k, v, dropout_p=dropout, scale=scale).view(
            *q.shape[:-1], v.size(-1)
        )
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    mask = None
    if 1 < length < keys:  # a chunk behind a cache
        mask = torch.ones(length, keys, dtype=torch.bool, device=q.device).tril_(keys - length)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=length == keys and length > 1, scale=scale
    )


def _attend_few(scores: Factors, v: Tensor) -> Tensor:
    """For a few rows behind a cache: the terms' scores are added up, the keys stay where they are."""
    heads, kv_heads = scores.terms[0].q.size(1), v.size(1)
    rows, keys = scores.terms[0].q.size(2), v.size(2)
    total: Tensor | None = None
    for q, k, query, key in scores.terms:
        part = _group(_weighted(q, query), kv_heads) @ k.mT
        part = _weighted(part, key.mT if isinstance(key, Tensor) and key.dim() else key)
        total = part if total is None else total.add_(part)
    assert total is not None
    _hide_future(total.unflatten(2, (heads // kv_heads, rows)), 0, keys - rows)
    return _ungroup(total.softmax(dim=-1) @ v, heads)


def _joined(scores: Factors) -> Term:
    """One term of concatenated heads."""
    return Term(
        torch.cat([_weighted(term.q, term.query) for term in scores.terms], dim=-1),
        torch.cat([_weighted(term.k, term.key) for term in scores.terms], dim=-1),
    )


def _hide_future(scores: Tensor, first: int, offset: int) -> Tensor:
    """Mask (…, rows, keys) in place, for rows from `first` and keys up to the last row's own."""
    rows = scores.size(-2)
    own = scores[..., offset + first :]
    own.masked_fill_(torch.ones(rows, rows, dtype=torch.bool, device=scores.device).triu_(1), float("-inf"))
    return scores


# -- Dense scores, a block of rows at a time ----------------------------------------------------------------------------


def _attend_dense(scores: Dense, v: Tensor, dropout: float) -> Tensor:
    offset = scores.num_keys - scores.num_rows

    def rows(first: int, last: int, *tables: Tensor) -> Tensor:
        block = scores.block(first, last, offset + last, *tables)  # (B, H, rows, keys)
        groups = block.size(1) // v.size(1)
        ahead = torch.ones(last - first, offset + last, dtype=torch.bool, device=v.device).triu(offset + first + 1)
        weights = F.dropout(block.masked_fill(ahead, float("-inf")).softmax(dim=-1), dropout, dropout > 0)
        mixed = weights.unflatten(1, (-1, groups)).flatten(2, 3) @ v[:, :, : offset + last]
        return mixed.unflatten(2, (groups, -1)).flatten(1, 2)

    cuts = [table.split(ROWS, dim=-2) for table in scores.tables]
    done = []
    for i, first in enumerate(range(0, scores.num_rows, ROWS)):
        bounds = (first, min(first + ROWS, scores.num_rows), *(cut[i] for cut in cuts))
        done.append(checkpoint(rows, *bounds, use_reentrant=False) if torch.is_grad_enabled() else rows(*bounds))
    return torch.cat(done, dim=2)


# -- Several terms, a block of rows at a time ---------------------------------------------------------------------------


def _attend_blocks(scores: Factors, v: Tensor, dropout: float) -> Tensor:
    seed = int(torch.randint(2**62, ())) if dropout > 0 else 0
    flat = [part for term in scores.terms for part in term]
    return _Blocks.apply(dropout, seed, v, *flat)


class _Blocks(torch.autograd.Function):
    """Attention over concatenated heads of all terms, by blocks of query rows that are made again in backward.

    Saved are v, the result, one number a row, and the terms as they are: layers share theirs, so memory stays that of a
    plain model.
    """

    @staticmethod
    def forward(ctx: Any, dropout: float, seed: int, v: Tensor, *flat: Any) -> Tensor:
        terms = _terms(flat)
        out = v.new_empty(terms[0].q.shape[:-1] + v.shape[-1:])
        norms = v.new_empty(terms[0].q.shape[:-1])
        for part in _parts(terms):
            q, k = _join(terms, part)
            for first, last, keys in _bounds(q, k):
                s = _scores(q, k, first, last, keys)
                norm = s.logsumexp(dim=-1, keepdim=True)
                s.sub_(norm).exp_()
                norms[part][:, :, first:last] = _ungroup(norm, q.size(1)).squeeze(-1)
                if dropout > 0:
                    s.mul_(_dropout_mask(s, dropout, seed, part, first))
                out[part][:, :, first:last] = _ungroup(s @ v[part][:, :, :keys], q.size(1))
        ctx.dropout, ctx.seed = dropout, seed
        ctx.numbers = [part if not isinstance(part, Tensor) else None for part in flat]
        ctx.save_for_backward(v, out, norms, *[part for part in flat if isinstance(part, Tensor)])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        v, out, norms, *tensors = ctx.saved_tensors
        rest = iter(tensors)
        terms = _terms([next(rest) if number is None else number for number in ctx.numbers])
        q, k = terms[0].q, terms[0].k
        all_q = q.new_empty(*q.shape[:-1], len(terms) * q.size(-1))  # gradients of the concatenated heads:
        all_k = k.new_zeros(*k.shape[:-1], len(terms) * k.size(-1))  # each term's are a view of them
        d_v = torch.zeros_like(v)
        delta = (grad * out).sum(dim=-1)  # (B, H, T)
        for part in _parts(terms):
            q, k = _join(terms, part)
            d_q, d_k = all_q[part], all_k[part]
            for first, last, keys in _bounds(q, k):
                rows = slice(first, last)
                p = _scores(q, k, first, last, keys)
                p.sub_(_group(norms[part][:, :, rows, None], k.size(1))).exp_()
                d_out = _group(grad[part][:, :, rows], k.size(1))
                d_p = d_out @ v[part][:, :, :keys].mT
                if ctx.dropout > 0:
                    mask = _dropout_mask(p, ctx.dropout, ctx.seed, part, first)
                    d_v[part][:, :, :keys] += (p * mask).mT @ d_out
                    d_p.mul_(mask)
                else:
                    d_v[part][:, :, :keys] += p.mT @ d_out
                d_s = d_p.sub_(_group(delta[part][:, :, rows, None], k.size(1))).mul_(p)
                d_q[:, :, rows] = _ungroup(d_s @ k[:, :, :keys], q.size(1))
                d_k[:, :, :keys] += d_s.mT @ _group(q[:, :, rows], k.size(1))
        return None, None, d_v, *_spread(terms, all_q, all_k)


def _terms(flat: Any) -> list[Term]:
    return [Term(*flat[i : i + 4]) for i in range(0, len(flat), 4)]


def _parts(terms: list[Term]) -> list[slice]:
    """Slices of the batch whose blocks of scores stay small."""
    batch, heads, length, _ = terms[0].q.shape
    size = max(1, BLOCK_NUMBERS // (heads * min(ROWS, length) * terms[0].k.size(2)))
    return [slice(start, min(start + size, batch)) for start in range(0, batch, size)]


def _narrow(weight: float | Tensor, part: slice) -> float | Tensor:
    return weight[part] if isinstance(weight, Tensor) and weight.dim() == 4 and weight.size(0) > 1 else weight


def _join(terms: list[Term], part: slice) -> tuple[Tensor, Tensor]:
    """The concatenated, weighted heads of a part of the batch: (b, H, T, m·d), (b, Hkv, S, m·d)."""
    q = torch.cat([_weighted(t.q[part], _narrow(t.query, part)) for t in terms], dim=-1)
    k = torch.cat([_weighted(t.k[part], _narrow(t.key, part)) for t in terms], dim=-1)
    return q, k


def _bounds(q: Tensor, k: Tensor) -> list[tuple[int, int, int]]:
    """(first row, last row, keys in sight) of each block."""
    length, offset = q.size(2), k.size(2) - q.size(2)
    ends = [min(first + ROWS, length) for first in range(0, length, ROWS)]
    return [(first, last, offset + last) for first, last in zip(range(0, length, ROWS), ends, strict=True)]


def _group(x: Tensor, kv_heads: int) -> Tensor:
    """(b, H, r, c) → (b, Hkv, H/Hkv · r, c): the query heads of a key head below each other."""
    return x if x.size(1) == kv_heads else x.unflatten(1, (kv_heads, -1)).flatten(2, 3)


def _ungroup(x: Tensor, heads: int) -> Tensor:
    return x if x.size(1) == heads else x.unflatten(2, (heads // x.size(1), -1)).flatten(1, 2)


def _scores(q: Tensor, k: Tensor, first: int, last: int, keys: int) -> Tensor:
    s = _group(q[:, :, first:last], k.size(1)) @ k[:, :, :keys].mT
    _hide_future(s.unflatten(2, (q.size(1) // k.size(1), last - first)), first, k.size(2) - q.size(2))
    return s


def _dropout_mask(like: Tensor, dropout: float, seed: int, part: slice, first: int) -> Tensor:
    generator = torch.Generator(like.device).manual_seed(hash((seed, part.start, first)) & (2**63 - 1))
    kept = torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype) >= dropout
    return kept.to(like.dtype).div_(1.0 - dropout)


def _spread(terms: list[Term], d_q: Tensor, d_k: Tensor) -> list[Tensor | None]:
    """From the gradients of the concatenated heads, which are used up, to those of each term's q, k and weights."""
    width = terms[0].q.size(-1)
    grads: list[Tensor | None] = []
    for term, dq, dk in zip(terms, d_q.split(width, dim=-1), d_k.split(width, dim=-1), strict=True):
        of_weights = [
            (x * d).sum(dim=-1, keepdim=True).sum_to_size(weight.shape).to(weight.dtype)
            if isinstance(weight, Tensor)
            else None
            for weight, x, d in ((term.query, term.q, dq), (term.key, term.k, dk))
        ]
        for weight, d in ((term.query, dq), (term.key, dk)):
            if isinstance(weight, Tensor) or weight != 1.0:
                d.mul_(weight)
        grads += [dq, dk, *of_weights]
    return grads
