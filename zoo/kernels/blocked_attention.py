"""Attention over the concatenated heads of several terms, by blocks of query rows that are made again in backward.

Saved are v and the terms as they are. Layers share the queries and keys of their terms, and the gradients of these add up
in one place (`zoo.kernels.shared_gradients`), so memory stays that of a plain model. No T×T matrix is ever kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.shared_gradients import Gathered, gathered_for

ROWS = 64  # query rows at a time: with fewer, fewer scores are made that the mask hides
BLOCK_NUMBERS = 1 << 20  # scores at a time: 4 MB stay in the cache, and two threads have enough to do
JOINED_NUMBERS = (
    1 << 21
)  # of concatenated queries at a time: they are copies, and take memory that a plain model does not


class Term(NamedTuple):
    """(query ⊙ q) (key ⊙ k)ᵀ. Weights are numbers, or tensors (…, 1) that broadcast against q or k; d is the term's own."""

    q: Tensor  # (B, H, T, d)
    k: Tensor  # (B, Hkv, S, d)
    query: float | Tensor = 1.0
    key: float | Tensor = 1.0


def attend_by_rows(terms: Sequence[Term], v: Tensor, dropout: float) -> Tensor:
    """softmax(mask(Σ terms)) v: (B, H, T, d), for v (B, Hkv, S, d)."""
    seed = int(torch.randint(2**62, (), device="cpu")) if dropout > 0 else 0
    return _RowBlocks.apply(dropout, seed, v, *(part for term in terms for part in term))


class Part(NamedTuple):
    """What is attended with at a time: some sequences, and some key heads with the query heads of their groups."""

    batch: slice
    heads: slice
    key_heads: slice

    @property
    def of_queries(self) -> tuple[slice, slice]:
        return self.batch, self.heads

    @property
    def of_keys(self) -> tuple[slice, slice]:
        return self.batch, self.key_heads


def parts(terms: Sequence[Term]) -> Iterator[Part]:
    """All heads of all sequences in parts, each as large as there is room for."""
    (batch, heads, length, _), (kv_heads, keys) = terms[0].q.shape, terms[0].k.shape[1:3]
    groups = heads // kv_heads
    scores, joined = min(ROWS, length) * keys, max(length, keys) * sum(widths(terms))  # numbers per query head
    fit = max(1, min(BLOCK_NUMBERS // scores, JOINED_NUMBERS // joined) // groups)  # key heads, over all sequences
    sequences = max(1, fit // kv_heads)
    at_once = max(n for n in range(1, kv_heads + 1) if kv_heads % n == 0 and n <= fit)
    for b, h in itertools.product(range(0, batch, sequences), range(0, kv_heads, at_once)):
        end = h + at_once
        yield Part(slice(b, min(b + sequences, batch)), slice(h * groups, end * groups), slice(h, end))


def widths(terms: Sequence[Term]) -> list[int]:
    """The head width of each term: terms may differ in it."""
    return [term.q.size(-1) for term in terms]


class Rows(NamedTuple):
    """A block of query rows, and the keys up to the last row's own."""

    first: int
    number: int
    keys: int

    def of(self, x: Tensor) -> Tensor:
        """These rows of x (n, groups, T, c)."""
        return x.narrow(2, self.first, self.number)


def _cut(weight: float | Tensor, x: Tensor, at: tuple[slice, slice]) -> float | Tensor:
    """The weight of a part, as it broadcasts against (n, T, d)."""
    if not isinstance(weight, Tensor):
        return weight
    if weight.numel() == 1:
        return weight.reshape(()).to(x.dtype)
    return weight.to(x.dtype).expand(*x.shape[:-1], 1)[at].flatten(0, 1)


def _weighted(heads: Sequence[Tensor], weights: Sequence[float | Tensor], at: tuple[slice, slice]) -> Tensor:
    """The weighted heads of a part side by side: (n, T, Σ d)."""
    some = [x[at].flatten(0, 1) for x in heads]
    each = [x.size(-1) for x in some]
    joined = some[0].new_empty(*some[0].shape[:-1], sum(each))
    for x, weight, place in zip(some, weights, joined.split(each, dim=-1), strict=True):
        torch.mul(x, weight, out=place)
    return joined


class Joined:
    """The terms of a part as one, in batches of matrices, with room for a block of rows of their pattern."""

    def __init__(self, terms: Sequence[Term], part: Part) -> None:
        self.part = part
        q, self.k = self._heads(terms, part)  # (n · groups, T, Σ d), (n, S, Σ d)
        self.groups = q.size(0) // self.k.size(0)
        self.q = q.unflatten(0, (-1, self.groups))
        length, keys = q.size(1), self.k.size(1)
        rows, offset = min(ROWS, length), keys - length
        # The last rows see all keys: they come first, so that their product fills a gradient that the others add to.
        starts = reversed(range(0, length, rows))
        self.blocks = [Rows(i, min(rows, length - i), offset + min(i + rows, length)) for i in starts]
        self._room = [q.new_empty(q.size(0) * rows * keys) for _ in range(2)]
        self._ahead = q.new_full((rows, rows), float("-inf")).triu_(1)

    def _heads(self, terms: Sequence[Term], part: Part) -> tuple[Tensor, Tensor]:
        """Weighted queries and keys of all terms side by side; notes in `query` and `key` the weights of this part."""
        self.query: list[float | Tensor]
        self.key: list[float | Tensor]
        one = terms[0]
        if len(terms) == 1 and isinstance(one.query, float) and isinstance(one.key, float):  # no copy is needed
            self.scale = one.query * one.key
            self.query, self.key = [self.scale], [self.scale]
            return one.q[part.of_queries].flatten(0, 1), one.k[part.of_keys].flatten(0, 1)
        self.scale = 1.0
        self.query = [_cut(term.query, term.q, part.of_queries) for term in terms]
        self.key = [_cut(term.key, term.k, part.of_keys) for term in terms]
        q = _weighted([term.q for term in terms], self.query, part.of_queries)
        return q, _weighted([term.k for term in terms], self.key, part.of_keys)

    def room(self, i: int, rows: Rows) -> Tensor:
        """Space for these rows of the pattern (i = 0) or of its gradient (i = 1)."""
        shape = (self.k.size(0), self.groups * rows.number, rows.keys)
        return self._room[i][: shape[0] * shape[1] * shape[2]].view(shape)

    def pattern(self, rows: Rows) -> Tensor:
        """softmax(mask(scores)) of these rows: (n, groups · rows, keys)."""
        s, q, k = self.room(0, rows), matrices(self.q, rows), self.k[:, : rows.keys]
        torch.baddbmm(s, q, k.mT, beta=0, alpha=self.scale, out=s)
        own = s.unflatten(1, (self.groups, rows.number)).narrow(3, rows.keys - rows.number, rows.number)
        own.add_(self._ahead[: rows.number, : rows.number])
        return torch.softmax(s, dim=-1, out=s)

    def d_pattern(self, rows: Rows, d_out: Tensor, values: Tensor) -> Tensor:
        """The gradient of the pattern, from that of what was attended (n, groups, T, c), for values (n, S, c)."""
        return torch.bmm(matrices(d_out, rows), values[:, : rows.keys].mT, out=self.room(1, rows))

    def add_gradients(self, rows: Rows, p: Tensor, d_p: Tensor, d_q: Tensor, d_k: Tensor) -> None:
        """Add to the gradients of q and k, given the pattern's gradient `d_p`, which is overwritten."""
        d_s = torch._softmax_backward_data(d_p, p, -1, p.dtype, grad_input=d_p)
        add_product(d_k, rows, d_s.mT, matrices(self.q, rows))
        fill(rows.of(d_q), torch.bmm(d_s, self.k[:, : rows.keys]))

    def heads_of(self, *tensors: Tensor) -> Tensor:
        """The query heads of this part, of all the tensors (B, H, T, c) side by side: (n, groups, T, Σ c)."""
        return _beside(tensors, self.part.of_queries).unflatten(1, (-1, self.groups)).flatten(0, 1)

    def values_of(self, *tensors: Tensor) -> Tensor:
        """The key heads of this part, of all the tensors (B, Hkv, S, c) side by side: (n, S, Σ c)."""
        return _beside(tensors, self.part.of_keys).flatten(0, 1)

    def dropout_mask(self, rows: Rows, dropout: float, seed: int) -> Tensor:
        """What these rows of the pattern are multiplied by; the same in forward and backward."""
        at = (seed, self.part.batch.start, self.part.heads.start, rows.first)
        like = self.room(0, rows)
        generator = torch.Generator(like.device).manual_seed(hash(at) & (2**63 - 1))
        stays = torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype) >= dropout
        return stays.to(like.dtype).div_(1.0 - dropout)


def _beside(tensors: Sequence[Tensor], at: tuple[slice, slice]) -> Tensor:
    return tensors[0][at] if len(tensors) == 1 else torch.cat([x[at] for x in tensors], dim=-1)


def matrices(x: Tensor, rows: Rows) -> Tensor:
    """Some rows of x (n, groups, T, c) as a batch of matrices: (n, groups · rows, c)."""
    return rows.of(x).flatten(1, 2)


def fill(place: Tensor, dense: Tensor) -> None:
    """Copy a dense tensor to its place, a view of another shape."""
    place.copy_(dense.view(place.shape))


def add_product(total: Tensor, rows: Rows, x: Tensor, y: Tensor) -> None:
    """total[:, : rows.keys] += x y. The first rows to come see all keys: theirs fills `total`, which needs no zeros."""
    if rows.keys == total.size(1):
        torch.bmm(x, y, out=total)
    else:
        total[:, : rows.keys].add_(torch.bmm(x, y))


class _RowBlocks(torch.autograd.Function):
    """`attend_by_rows`, with the terms flat: q, k, query, key, q, k, …"""

    @staticmethod
    def forward(ctx: Any, dropout: float, seed: int, v: Tensor, *flat: Any) -> Tensor:
        terms = _terms(flat)
        out = v.new_empty(terms[0].q.shape[:-1] + v.shape[-1:])
        for part in parts(terms):
            joined = Joined(terms, part)
            values = joined.values_of(v)
            mixed = values.new_empty(*joined.q.shape[:-1], v.size(-1))
            for rows in joined.blocks:
                p = joined.pattern(rows)
                if dropout > 0:
                    p.mul_(joined.dropout_mask(rows, dropout, seed))
                fill(rows.of(mixed), torch.bmm(p, values[:, : rows.keys]))
            fill(out[part.of_queries], mixed)
        ctx.dropout, ctx.seed = dropout, seed
        ctx.numbers = [None if isinstance(part, Tensor) else part for part in flat]
        ctx.nodes = [tuple((gathered_for(x), x.output_nr) for x in (term.q, term.k)) for term in terms]
        ctx.save_for_backward(v, *[part for part in flat if isinstance(part, Tensor)])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        v, *tensors = ctx.saved_tensors
        rest = iter(tensors)
        terms = _terms([next(rest) if number is None else number for number in ctx.numbers])
        d_v = v.new_empty(v.shape)
        gradients = [
            (Gradient(t.q, t.query, *of_q), Gradient(t.k, t.key, *of_k))
            for t, (of_q, of_k) in zip(terms, ctx.nodes, strict=True)
        ]
        for part in parts(terms):
            joined = Joined(terms, part)
            d_mixed, values = joined.heads_of(grad), joined.values_of(v)
            d_values = values.new_empty(values.shape)
            d_q, d_k = torch.empty_like(joined.q), torch.empty_like(joined.k)
            for rows in joined.blocks:
                p, d_p = joined.pattern(rows), joined.d_pattern(rows, d_mixed, values)
                used = p
                if ctx.dropout > 0:
                    mask = joined.dropout_mask(rows, ctx.dropout, ctx.seed)
                    used = p * mask
                    d_p.mul_(mask)
                add_product(d_values, rows, used.mT, matrices(d_mixed, rows))
                joined.add_gradients(rows, p, d_p, d_q, d_k)
            fill(d_v[part.of_keys], d_values)
            each = widths(terms)
            d_queries, d_keys = d_q.flatten(0, 1).split(each, dim=-1), d_k.split(each, dim=-1)
            for i, (of_q, of_k) in enumerate(gradients):
                of_q.add(part.of_queries, d_queries[i], joined.query[i])
                of_k.add(part.of_keys, d_keys[i], joined.key[i])
        returned = [(q.of_x(), k.of_x(), q.of_its_weight(), k.of_its_weight()) for q, k in gradients]
        return None, None, d_v, *(grad for of_term in returned for grad in of_term)


def _terms(flat: Sequence[Any]) -> list[Term]:
    return [Term(*flat[i : i + 4]) for i in range(0, len(flat), 4)]


class Gradient:
    """The gradient of one term's q (or k) and of its weight, added up part by part."""

    def __init__(self, x: Tensor, weight: float | Tensor, node: Gathered | None = None, which: int = 0) -> None:
        self.x, self.weight = x, weight
        self.of_weight = x.new_empty(*x.shape[:-1], 1) if isinstance(weight, Tensor) else None
        self.gathered = node is not None
        totals = {} if node is None else node.now().totals
        self.begun = which in totals
        self.total = totals.setdefault(which, x.new_empty(x.shape))

    def add(self, at: tuple[slice, slice], grad: Tensor, weight: float | Tensor) -> None:
        """Add a part, given the gradient (n, T, d) of its weighted heads."""
        total = self.total[at].view(grad.shape)
        if self.of_weight is not None:
            fill(self.of_weight[at], (self.x[at].flatten(0, 1) * grad).sum(dim=-1))
        if not self.begun:
            torch.mul(grad, weight, out=total)
        elif isinstance(weight, Tensor):
            total.addcmul_(grad, weight)
        else:
            total.add_(grad, alpha=weight)

    def of_x(self) -> Tensor | None:
        """The gradient of q (or k); None where it is gathered with that of other readers."""
        return None if self.gathered else self.total

    def of_its_weight(self) -> Tensor | None:
        """The gradient of the weight; None where the weight is a number."""
        if self.of_weight is None or not isinstance(self.weight, Tensor):
            return None
        return self.of_weight.sum_to_size(self.weight.shape).to(self.weight.dtype)
