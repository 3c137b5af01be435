"""Attending with factors and with dense scores, against softmax(mask(S)) V written out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers.largest_tensor import Largest

from zoo.kernels import blocked_attention, shared_pattern
from zoo.kernels.attend import Dense, Factors, _joined, attend
from zoo.kernels.blocked_attention import Term
from zoo.kernels.shared_gradients import share_gradients


def randn(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


def naive(terms: tuple[Term, ...], v: torch.Tensor) -> torch.Tensor:
    groups = terms[0].q.size(1) // v.size(1)
    s = sum((t.query * t.q) @ (t.key * t.k).repeat_interleave(groups, dim=1).mT for t in terms)
    length, keys = s.shape[-2:]
    ahead = torch.ones(length, keys, dtype=torch.bool).triu(keys - length + 1)
    return s.masked_fill(ahead, float("-inf")).softmax(dim=-1) @ v.repeat_interleave(groups, dim=1)


def some_terms(
    count: int, batch: int, heads: int, kv_heads: int, length: int, keys: int, widths: tuple[int, ...] = (4,)
) -> tuple[Term, ...]:
    width = [widths[i % len(widths)] for i in range(count)]
    weights = [0.7, randn(length, 1), randn(batch, 1, length, 1), randn()]
    key_weights = [1.0, randn(keys, 1), 0.5, randn(batch, 1, keys, 1)]
    return tuple(
        Term(
            randn(batch, heads, length, width[i]) + i,
            randn(batch, kv_heads, keys, width[i]) - i,
            weights[i % 4],
            key_weights[i % 4],
        )
        for i in range(count)
    )


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (2, 1)])
@pytest.mark.parametrize(("length", "keys"), [(1, 1), (7, 7), (1, 7), (3, 8), (9, 9)])
@pytest.mark.parametrize("at_once", [0.5, 2])  # sequences: half the heads of one, or two whole ones
def test_factors(
    monkeypatch: pytest.MonkeyPatch, count: int, heads: int, kv_heads: int, length: int, keys: int, at_once: float
) -> None:
    monkeypatch.setattr(blocked_attention, "ROWS", 4)
    monkeypatch.setattr(blocked_attention, "BLOCK_NUMBERS", int(at_once * heads * min(4, length) * keys))
    terms, v = some_terms(count, 3, heads, kv_heads, length, keys), randn(3, kv_heads, keys, 5)
    ours, theirs = attend(Factors(terms), v), naive(terms, v)
    torch.testing.assert_close(ours, theirs)
    inputs = [v] + [x for term in terms for x in term if isinstance(x, torch.Tensor) and x.requires_grad]
    weights = torch.randn_like(ours)
    for mine, expected in zip(
        torch.autograd.grad((ours * weights).sum(), inputs),
        torch.autograd.grad((theirs * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("widths", [(4, 6), (1, 3, 2), (5, 5, 2)])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2)])
@pytest.mark.parametrize(("length", "keys"), [(7, 7), (3, 8), (9, 9)])
def test_terms_of_unequal_width(
    monkeypatch: pytest.MonkeyPatch, widths: tuple[int, ...], heads: int, kv_heads: int, length: int, keys: int
) -> None:
    """In training by blocks of rows, without gradients by rows after a cache, and as one joined term."""
    monkeypatch.setattr(blocked_attention, "ROWS", 4)
    terms, v = some_terms(len(widths), 3, heads, kv_heads, length, keys, widths), randn(3, kv_heads, keys, 5)
    ours, theirs = attend(Factors(terms), v), naive(terms, v)
    torch.testing.assert_close(ours, theirs)
    with torch.no_grad():
        torch.testing.assert_close(attend(Factors(terms), v), theirs)
        torch.testing.assert_close(attend(Factors((_joined(Factors(terms)),)), v), theirs)
    inputs = [v] + [x for term in terms for x in term if isinstance(x, torch.Tensor) and x.requires_grad]
    weights = torch.randn_like(ours)
    for mine, expected in zip(
        torch.autograd.grad((ours * weights).sum(), inputs),
        torch.autograd.grad((theirs * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize(("heads", "kv_heads", "count"), [(8, 8, 1), (8, 8, 12), (6, 3, 12), (4, 1, 30)])
def test_parts_are_all_heads_once_and_their_copies_small(heads: int, kv_heads: int, count: int) -> None:
    q, k = torch.empty(3, heads, 256, 64, device="meta"), torch.empty(3, kv_heads, 256, 64, device="meta")
    seen = torch.zeros(3, heads), torch.zeros(3, kv_heads)
    for part in blocked_attention.parts([Term(q, k)] * count):
        seen[0][part.of_queries] += 1
        seen[1][part.of_keys] += 1
        copied = q[part.of_queries].numel() * count
        assert copied <= blocked_attention.JOINED_NUMBERS or part.key_heads.stop - part.key_heads.start == 1
    assert (seen[0] == 1).all() and (seen[1] == 1).all()


class Stack:
    """Layers that attend with the heads of several layers, to the same heads twice, and with one pattern again."""

    def __init__(self, gather: Callable[..., tuple[torch.Tensor, ...]], groups: int) -> None:
        self.groups = groups
        kv_heads = 4 // groups
        self.heads = [(randn(2, 4, 9, 4 + i)[..., :4], randn(2, kv_heads, 9, 5 + i)[..., :4]) for i in range(3)]
        self.weights = [randn(), randn(9, 1)]
        self.v = randn(2, kv_heads, 9, 4)
        q, k = zip(*(gather(q, k) for q, k in self.heads), strict=True)
        one, row = self.weights
        self.layers = [
            (Term(q[0], k[0]),),
            (Term(q[0], k[0], query=one), Term(q[1], k[1], key=row), Term(q[1], k[1], query=0.3)),
            (Term(q[0], k[0]), Term(q[1], k[1], query=row), Term(q[2], k[2])),
            (Term(q[0], k[0]),),
            (Term(q[2], k[2], query=0.5),),
            (Term(q[0], k[0], query=0.5),),
            (Term(q[0], k[0]),),
        ]

    def loss(self, attend: Callable[[tuple[Term, ...], torch.Tensor], torch.Tensor]) -> torch.Tensor:
        v = self.v
        for i, terms in enumerate(self.layers):
            v = attend(terms, v)[:, :: self.groups] * (1.0 + 0.1 * i)  # as many heads as there are keys'
        return v.square().sum()

    def leaves(self) -> list[torch.Tensor]:
        return [self.v, *self.weights, *(x for pair in self.heads for x in pair)]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("long", [1, 100])
def test_heads_that_many_layers_read_gather_their_gradient(
    monkeypatch: pytest.MonkeyPatch, groups: int, long: int
) -> None:
    monkeypatch.setattr(blocked_attention, "ROWS", 4)
    monkeypatch.setattr(shared_pattern, "LONG", long)
    stack, plain = Stack(share_gradients, groups), Stack(lambda q, k: (q, k), groups)
    expected = torch.autograd.grad(plain.loss(naive), plain.leaves())
    loss = stack.loss(lambda terms, v: attend(Factors(terms), v))
    (one,) = torch.autograd.grad(loss, stack.weights[0], retain_graph=True)  # stops short of the heads
    torch.testing.assert_close(one, expected[1])
    for _ in range(2):
        for mine, theirs in zip(torch.autograd.grad(loss, stack.leaves(), retain_graph=True), expected, strict=True):
            torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(("length", "keys"), [(1, 1), (9, 9), (3, 8)])
def test_dense(length: int, keys: int) -> None:
    q, k, v, table = randn(2, 4, length, 4), randn(2, 2, keys, 4), randn(2, 2, keys, 4), randn(length, keys)

    def block(first: int, last: int, seen: int, rows: torch.Tensor) -> torch.Tensor:
        return q[:, :, first:last] @ k.repeat_interleave(2, dim=1)[:, :, :seen].mT * rows[:, :seen]

    ours = attend(Dense(block, length, keys, (table,), rows_at_once=4), v)
    s = q @ k.repeat_interleave(2, dim=1).mT * table
    ahead = torch.ones(length, keys, dtype=torch.bool).triu(keys - length + 1)
    theirs = s.masked_fill(ahead, float("-inf")).softmax(-1) @ v.repeat_interleave(2, dim=1)
    torch.testing.assert_close(ours, theirs)
    for mine, expected in zip(
        torch.autograd.grad(ours.sum(), (q, k, v, table)),
        torch.autograd.grad(theirs.sum(), (q, k, v, table)),
        strict=True,
    ):
        torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("count", [1, 3])
def test_no_square_matrix_is_stored(count: int) -> None:
    length, heads = 1024, 2
    terms = tuple(Term(torch.randn(1, heads, length, 8), torch.randn(1, heads, length, 8), 0.3) for _ in range(count))
    q = terms[0].q.requires_grad_()
    with Largest() as largest:
        attend(Factors(terms), torch.randn(1, heads, length, 8, requires_grad=True)).sum().backward()
    assert largest.numbers <= heads * 128 * length < heads * length * length
    assert q.grad is not None


def test_dropout_of_several_terms_is_the_same_in_backward() -> None:
    """With dropout the function is random, but linear in v: its gradient must fit the mask that was drawn."""
    terms = some_terms(2, 2, 2, 2, 6, 6)
    v = randn(2, 2, 6, 4)
    torch.manual_seed(0)
    out = attend(Factors(terms), v, dropout=0.5)
    (gradient,) = torch.autograd.grad(out.sum(), v)
    torch.testing.assert_close((gradient * v).sum(), out.sum())
    assert not torch.allclose(out, attend(Factors(terms), v))
