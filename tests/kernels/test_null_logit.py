"""Attention with a null logit, fused and by blocks of rows, against the softmax written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from zoo.kernels import null_logit
from zoo.kernels.attend import Factors, attend, dense_of
from zoo.kernels.blocked_attention import Term


def randn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def naive(q: Tensor, k: Tensor, v: Tensor, null: Tensor, scale: float) -> Tensor:
    groups = q.size(1) // k.size(1)
    scores = scale * q @ k.repeat_interleave(groups, dim=1).mT
    length, keys = scores.shape[-2:]
    e = scores.exp().tril(keys - length)
    return e / (null.exp() + e.sum(dim=-1, keepdim=True)) @ v.repeat_interleave(groups, dim=1)


@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (2, 1)])
@pytest.mark.parametrize(("length", "keys"), [(1, 1), (9, 9), (1, 7), (3, 8), (150, 150)])
def test_it_is_a_softmax_with_one_more_logit(
    length: int, keys: int, heads: int, kv_heads: int, per_token: bool
) -> None:
    q, k, v = randn(2, heads, length, 8), randn(2, kv_heads, keys, 8), randn(2, kv_heads, keys, 8)
    null = randn(2, heads, length, 1) if per_token else randn(heads, 1, 1)
    theirs = naive(q, k, v, null, 0.3)
    assert null_logit.is_fused(q, k, v) == (length == keys > 1)
    along = torch.randn_like(theirs)
    expected = torch.autograd.grad((theirs * along).sum(), [q, k, v, null])
    one, two = Factors((Term(q, k, 0.3),), null), Factors((Term(q, k, 0.1), Term(q, k, 0.2)), null)
    for ours in (attend(one, v), attend(two, v), attend(dense_of(one), v)):
        torch.testing.assert_close(ours, theirs)
        for mine, other in zip(torch.autograd.grad((ours * along).sum(), [q, k, v, null]), expected, strict=True):
            torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_types_are_near(dtype: torch.dtype) -> None:
    given = [randn(2, 4, 9, 8) for _ in range(3)]
    narrow = [x.detach().to(dtype) for x in given]
    null = randn(4, 1, 1, dtype=torch.float32)
    ours = attend(Factors((Term(*narrow[:2], 0.3),), null), narrow[2])
    assert ours.dtype == dtype
    torch.testing.assert_close(
        ours.double(), naive(*given, null.double(), 0.3), rtol=0, atol=1e-5 if dtype == torch.float32 else 3e-2
    )


def test_far_away_it_is_plain_attention_or_nothing() -> None:
    q, k, v = randn(1, 2, 5, 4), randn(1, 2, 5, 4), randn(1, 2, 5, 4)
    plain = attend(Factors((Term(q, k),)), v)
    torch.testing.assert_close(attend(Factors((Term(q, k),), torch.full((2, 1, 1), -1e4)), v), plain)
    torch.testing.assert_close(attend(Factors((Term(q, k),), torch.full((2, 1, 1), 1e4)), v), torch.zeros_like(plain))


def test_a_gradient_without_strides_is_taken() -> None:
    q, k, v, null = randn(1, 2, 5, 4), randn(1, 2, 5, 4), randn(1, 2, 5, 4), randn(2, 1, 1)
    attend(Factors((Term(q, k),), null), v).sum().backward()  # the gradient of a sum is one number, expanded
    expected = torch.autograd.grad(naive(q, k, v, null, 1.0).sum(), [q, k, v, null])
    for x, gradient in zip((q, k, v, null), expected, strict=True):
        torch.testing.assert_close(x.grad, gradient)
