"""Weighted sums and taps against their formulas, value and gradient."""

from __future__ import annotations

import pytest
import torch
from helpers.random_tensors import randn
from torch.autograd import gradcheck

from zoo.kernels import sums
from zoo.kernels.previous import shared_with_previous
from zoo.kernels.sums import several_taps, taps, weighted_sum


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 1)])
def test_weighted_sum(shape: tuple[int, ...]) -> None:
    tensors = [randn(2, 3, n) for n in (4,) * 3]
    weights = randn(3, *shape)
    torch.testing.assert_close(
        weighted_sum(weights, tensors), sum(w * t for w, t in zip(weights, tensors, strict=True))
    )
    assert gradcheck(lambda w, *t: weighted_sum(w, t), (weights, *tensors))


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3,), (3, 4)])
def test_taps(first: int, shape: tuple[int, ...]) -> None:
    u, weights, owner = randn(2, 6, 4), randn(*shape), torch.nn.Module()
    naive = torch.zeros_like(u)
    for t in range(6):
        for k in range(3):
            if t - first - k >= 0:
                naive = naive.index_add(1, torch.tensor([t]), (weights[k] * u[:, t - first - k])[:, None])
    torch.testing.assert_close(taps(owner, u, weights, None, first=first), naive)
    assert gradcheck(lambda u, w: taps(owner, u, w, None, first=first), (u, weights))


@pytest.mark.parametrize("cache", [1, 140, 1 << 21])
def test_several_taps_are_taps_of_each_set(cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "CACHE", cache)
    u, sets, owner = randn(3, 4, 2), (randn(2, 2), randn(2, 2), randn(2)), torch.nn.Module()
    for answer, weights in zip(several_taps(owner, u, sets, None), sets, strict=True):
        torch.testing.assert_close(
            answer, weights[0] * u + weights[1] * torch.nn.functional.pad(u, (0, 0, 1, 0))[:, :-1]
        )
    assert gradcheck(lambda u, *sets: several_taps(owner, u, sets, None), (u, *sets))


@pytest.mark.parametrize("cache", [1, 140, 1 << 21])
def test_a_token_and_the_one_before_in_shares(cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "CACHE", cache)
    u, shares, owner = randn(3, 4, 2), randn(3, 2), torch.nn.Module()
    before = torch.nn.functional.pad(u, (0, 0, 1, 0))[:, :-1]
    answers = shared_with_previous(owner, u, shares, None)
    torch.testing.assert_close(answers, tuple(share * u + (1 - share) * before for share in shares))
    assert gradcheck(lambda u, shares: shared_with_previous(owner, u, shares, None), (u, shares))
    first = shared_with_previous(owner, u[:, :1], shares, None)  # alone: nothing is before it
    torch.testing.assert_close(first, tuple(share * u[:, :1] for share in shares))


def test_shares_in_single_precision_widen_what_they_are_of() -> None:
    u, shares = randn(2, 3, 4).bfloat16(), randn(1, 4).float()
    (answer,) = shared_with_previous(torch.nn.Module(), u, shares, None)
    (wide,) = shared_with_previous(torch.nn.Module(), u.float(), shares, None)
    assert answer.dtype == torch.float32 and answer.equal(wide)
