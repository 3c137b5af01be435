"""Attention over the concatenated heads of several terms, by blocks of query rows that are made again in backward.

Saved are v, the result, one number a row, and the terms as they are: layers share theirs, and their gradients are added
up where they are (`zoo.gather`), so memory stays that of a plain model. No T×T matrix is ever kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.gather import Gathered, gathered

ROWS = 128  # query rows at a time
BLOCK_NUMBERS = 1 << 19  # scores at a time: 2 MB stay in the cache


class Term(NamedTuple):
    """(query ⊙ q) (key ⊙ k)ᵀ. Weights are numbers, or tensors (…, 1) that broadcast against q or k."""

    q: Tensor  # (B, H, T, d)
    k: Tensor  # (B, Hkv, S, d)
    query: float | Tensor = 1.0
    key: float | Tensor = 1.0


def attend_by_rows(terms: Sequence[Term], v: Tensor, dropout: float) -> Tensor:
    """softmax(mask(Σ terms)) v: (B, H, T, d), for v (B, Hkv, S, d)."""
    seed = int(torch.randint(2**62, ())) if dropout > 0 else 0
    return _RowBlocks.apply(dropout, seed, v, *(part for term in terms for part in term))


# -- Blocks of rows -----------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """What is attended to at a time: some sequences, and some of the key heads with the query heads that they serve."""

    batch: slice
    heads: slice
    key_heads: slice


def _parts(q: Tensor, k: Tensor) -> Iterator[_Part]:
    (batch, heads, length, _), kv_heads = q.shape, k.size(1)
    groups = heads // kv_heads
    fit = max(1, BLOCK_NUMBERS // (groups * min(ROWS, length) * k.size(2)))  # key heads, over all sequences
    sequences, at_once = max(1, fit // kv_heads), min(fit, kv_heads)
    for b, h in itertools.product(range(0, batch, sequences), range(0, kv_heads, at_once)):
        end = min(h + at_once, kv_heads)
        yield _Part(slice(b, min(b + sequences, batch)), slice(h * groups, end * groups), slice(h, end))


class _Rows(NamedTuple):
    """A block of query rows and the keys in their sight."""

    first: int
    number: int
    keys: int


def _cut(weight: float | Tensor, x: Tensor, part: _Part, heads: slice) -> float | Tensor:
    """The weight of a part, as it broadcasts against (n, T, d)."""
    if not isinstance(weight, Tensor):
        return weight
    if weight.numel() == 1:
        return weight.reshape(()).to(x.dtype)
    return weight.to(x.dtype).expand(*x.shape[:-1], 1)[part.batch, heads].flatten(0, 1)


def _concatenated(heads: Sequence[Tensor], weights: Sequence[float | Tensor], part: _Part, which: slice) -> Tensor:
    """The weighted heads of a part side by side: (n, T, m·d)."""
    some = [x[part.batch, which].flatten(0, 1) for x in heads]
    joined = some[0].new_empty(*some[0].shape[:-1], len(some) * some[0].size(-1))
    for x, weight, place in zip(some, weights, joined.split(some[0].size(-1), dim=-1), strict=True):
        torch.mul(x, weight, out=place)
    return joined


class _Joined:
    """The terms of a part as one: batches of matrices, and room for the scores of a block of rows."""

    def __init__(self, terms: Sequence[Term], part: _Part) -> None:
        self.part = part
        self.query = [_cut(term.query, term.q, part, part.heads) for term in terms]
        self.key = [_cut(term.key, term.k, part, part.key_heads) for term in terms]
        q = _concatenated([term.q for term in terms], self.query, part, part.heads)  # (n · groups, T, m·d)
        self.k = _concatenated([term.k for term in terms], self.key, part, part.key_heads)  # (n, S, m·d)
        self.groups = q.size(0) // self.k.size(0)
        self.q = q.unflatten(0, (-1, self.groups))
        length, keys = q.size(1), self.k.size(1)
        rows, offset = min(ROWS, length), keys - length
        self.blocks = [_Rows(i, min(rows, length - i), offset + min(i + rows, length)) for i in range(0, length, rows)]
        self._room = [q.new_empty(q.size(0) * rows * keys) for _ in range(2)]
        self._ahead = q.new_full((rows, rows), float("-inf")).triu_(1)

    def room(self, i: int, rows: _Rows) -> Tensor:
        shape = (self.k.size(0), self.groups * rows.number, rows.keys)
        return self._room[i][: shape[0] * shape[1] * shape[2]].view(shape)

    def scores(self, rows: _Rows) -> Tensor:
        """The masked scores of these rows: (n, groups · rows, keys)."""
        s = torch.bmm(_matrices(self.q, rows), self.k[:, : rows.keys].mT, out=self.room(0, rows))
        own = s.unflatten(1, (self.groups, rows.number)).narrow(3, rows.keys - rows.number, rows.number)
        own.add_(self._ahead[: rows.number, : rows.number])
        return s

    def heads_of(self, x: Tensor) -> Tensor:
        """What x (B, H, T, c) has for this part: (n, groups, T, c)."""
        return x[self.part.batch, self.part.heads].unflatten(1, (-1, self.groups)).flatten(0, 1)

    def values_of(self, x: Tensor) -> Tensor:
        """What x (B, Hkv, S, c) has for this part: (n, S, c)."""
        return x[self.part.batch, self.part.key_heads].flatten(0, 1)

    def dropout_mask(self, rows: _Rows, dropout: float, seed: int) -> Tensor:
        at = (seed, self.part.batch.start, self.part.heads.start, rows.first)
        like = self.room(0, rows)
        generator = torch.Generator(like.device).manual_seed(hash(at) & (2**63 - 1))
        kept = torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype) >= dropout
        return kept.to(like.dtype).div_(1.0 - dropout)


def _matrices(x: Tensor, rows: _Rows) -> Tensor:
    """Some rows of x (n, groups, T, c) as a batch of matrices: (n, groups · rows, c)."""
    return x.narrow(2, rows.first, rows.number).flatten(1, 2)


def _put(x: Tensor, rows: _Rows, matrices: Tensor) -> None:
    """And back."""
    place = x.narrow(2, rows.first, rows.number)
    place.copy_(matrices.view(place.shape))


class _RowBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dropout: float, seed: int, v: Tensor, *flat: Any) -> Tensor:
        terms = _terms(flat)
        out = v.new_empty(terms[0].q.shape[:-1] + v.shape[-1:])
        norms = v.new_empty(*terms[0].q.shape[:-1], 1)
        for part in _parts(terms[0].q, terms[0].k):
            joined, own_out, own_norms = _Joined(terms, part), out[part[:2]], norms[part[:2]]
            values = joined.values_of(v)
            mixed = values.new_empty(*joined.q.shape[:-1], v.size(-1))
            norm = values.new_empty(*joined.q.shape[:-1], 1)
            for rows in joined.blocks:
                s = joined.scores(rows)
                top = s.amax(dim=-1, keepdim=True)
                sums = s.sub_(top).exp_().sum(dim=-1, keepdim=True)
                _put(norm, rows, top.add_(sums.log()))
                if dropout > 0:
                    s.mul_(joined.dropout_mask(rows, dropout, seed))
                _put(mixed, rows, torch.bmm(s, values[:, : rows.keys]).div_(sums))
            own_out.copy_(mixed.view(own_out.shape))
            own_norms.copy_(norm.view(own_norms.shape))
        ctx.dropout, ctx.seed = dropout, seed
        ctx.numbers = [None if isinstance(part, Tensor) else part for part in flat]
        ctx.nodes = [tuple((gathered(x), x.output_nr) for x in (term.q, term.k)) for term in terms]
        ctx.save_for_backward(v, out, norms, *[part for part in flat if isinstance(part, Tensor)])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        v, out, norms, *tensors = ctx.saved_tensors
        rest = iter(tensors)
        terms = _terms([next(rest) if number is None else number for number in ctx.numbers])
        d_v = v.new_empty(v.shape)
        deltas = (grad * out).sum(dim=-1, keepdim=True)
        gradients = [
            (_Gradient(t.q, t.query, *of_q), _Gradient(t.k, t.key, *of_k))
            for t, (of_q, of_k) in zip(terms, ctx.nodes, strict=True)
        ]
        for part in _parts(terms[0].q, terms[0].k):
            joined = _Joined(terms, part)
            d_mixed, norm, delta = (joined.heads_of(x) for x in (grad, norms, deltas))
            values = joined.values_of(v)
            d_values = values.new_empty(values.shape)
            d_q, d_k = torch.empty_like(joined.q), torch.empty_like(joined.k)
            beta = 0.0  # the last rows see all keys: they come first, the others are added to them
            for rows in reversed(joined.blocks):
                k, d_out = joined.k[:, : rows.keys], _matrices(d_mixed, rows)
                p = joined.scores(rows).sub_(_matrices(norm, rows)).exp_()
                d_p = torch.bmm(d_out, values[:, : rows.keys].mT, out=joined.room(1, rows))
                kept = p
                if ctx.dropout > 0:
                    mask = joined.dropout_mask(rows, ctx.dropout, ctx.seed)
                    kept = p * mask
                    d_p.mul_(mask)
                d_values[:, : rows.keys].baddbmm_(kept.mT, d_out, beta=beta)
                d_s = d_p.sub_(_matrices(delta, rows)).mul_(p)
                d_k[:, : rows.keys].baddbmm_(d_s.mT, _matrices(joined.q, rows), beta=beta)
                if joined.groups == 1:
                    torch.bmm(d_s, k, out=_matrices(d_q, rows))
                else:
                    _put(d_q, rows, torch.bmm(d_s, k))
                beta = 1.0
            place = d_v[part.batch, part.key_heads]
            place.copy_(d_values.view(place.shape))
            width = terms[0].q.size(-1)
            d_queries, d_keys = d_q.flatten(0, 1).split(width, dim=-1), d_k.split(width, dim=-1)
            for i, (of_q, of_k) in enumerate(gradients):
                of_q.add(part, part.heads, d_queries[i], joined.query[i])
                of_k.add(part, part.key_heads, d_keys[i], joined.key[i])
        returned = [(q.of_x(), k.of_x(), q.of_its_weight(), k.of_its_weight()) for q, k in gradients]
        return None, None, d_v, *(grad for of_term in returned for grad in of_term)


def _terms(flat: Sequence[Any]) -> list[Term]:
    return [Term(*flat[i : i + 4]) for i in range(0, len(flat), 4)]


class _Gradient:
    """That of a term's q or k and of its weight, added up part by part."""

    def __init__(self, x: Tensor, weight: float | Tensor, node: Gathered | None, which: int) -> None:
        self.x, self.weight = x, weight
        self.of_weight = x.new_empty(*x.shape[:-1], 1) if isinstance(weight, Tensor) else None
        self.gathered = node is not None
        totals = {} if node is None else node.now().totals
        self.begun = which in totals
        self.total = totals.setdefault(which, x.new_empty(x.shape))

    def add(self, part: _Part, heads: slice, grad: Tensor, weight: float | Tensor) -> None:
        """From that of the weighted heads of a part (n, T, d)."""
        total = self.total[part.batch, heads].view(grad.shape)
        if self.of_weight is not None:
            place = self.of_weight[part.batch, heads]
            place.copy_((self.x[part.batch, heads].flatten(0, 1) * grad).sum(dim=-1).view(place.shape))
        if not self.begun:
            torch.mul(grad, weight, out=total)
        elif isinstance(weight, Tensor):
            total.addcmul_(grad, weight)
        else:
            total.add_(grad, alpha=weight)

    def of_x(self) -> Tensor | None:
        return None if self.gathered else self.total

    def of_its_weight(self) -> Tensor | None:
        if self.of_weight is None or not isinstance(self.weight, Tensor):
            return None
        return self.of_weight.sum_to_size(self.weight.shape).to(self.weight.dtype)
