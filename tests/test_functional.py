"""Each saving function against its one-line formula, value and gradient, and what it must not store."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck

from zoo import functional
from zoo.functional import (
    Rest,
    heads_of,
    linear_cross_entropy,
    linear_score,
    rest_of_layer,
    rms_norm,
    rotary_table,
    swiglu,
)
from zoo.sums import taps, weighted_sum


def randn(*shape: int, grad: bool = True) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_(
        grad
    )


def test_rms_norm() -> None:
    x, gain = randn(2, 3, 8), randn(8)
    for g in (gain, None):
        torch.testing.assert_close(rms_norm(x, g, 1e-5), F.rms_norm(x, (8,), g, 1e-5))
    assert gradcheck(lambda x, g: rms_norm(x, g, 1e-5), (x, gain))
    assert gradcheck(lambda x: rms_norm(x, None, 1e-5), (x,))


def test_swiglu() -> None:
    gate_up, down = randn(2, 3, 12), randn(4, 6)
    gate, up = gate_up.chunk(2, dim=-1)
    torch.testing.assert_close(swiglu(gate_up, down), (F.silu(gate) * up) @ down.T)
    assert gradcheck(swiglu, (gate_up, down))


def test_rest_of_a_layer() -> None:
    x, heads, weights = randn(2, 3, 4), randn(2, 3, 5), Rest(randn(4, 5), randn(4), randn(12, 4), randn(4, 6))

    def plain(x: Tensor, heads: Tensor, weights: Rest) -> Tensor:
        normed = F.rms_norm(x + F.linear(heads, weights.out), (4,), weights.gain, 1e-5)
        gate, up = F.linear(normed, weights.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, weights.down)

    torch.testing.assert_close(rest_of_layer(x, heads, weights, 1e-5), plain(x, heads, weights))
    assert gradcheck(lambda x, heads, *w: rest_of_layer(x, heads, Rest(*w), 1e-5), (x, heads, *weights))
    narrow = [given.detach().float().requires_grad_() for given in (x, heads, *weights)]
    with torch.autocast("cpu", torch.bfloat16):
        half = rest_of_layer(narrow[0], narrow[1], Rest(*narrow[2:]), 1e-5)
    assert half.dtype == torch.bfloat16
    half.float().square().sum().backward()
    wanted = torch.autograd.grad(plain(x, heads, weights).square().sum(), (x, heads, *weights))
    for given, gradient in zip(narrow, wanted, strict=True):
        assert given.grad is not None and given.grad.dtype == torch.float32
        torch.testing.assert_close(
            given.grad.double() / gradient.abs().max(), gradient / gradient.abs().max(), rtol=0, atol=0.1
        )


def test_heads_are_cut_and_the_first_are_turned() -> None:
    joined, table = randn(2, 5, 32, grad=False), rotary_table(5, 8, 100.0)
    cut = heads_of(joined.clone(), (1, 1, 2), 8, table, turned=2)
    heads = joined.unflatten(-1, (4, 8))
    pairs = torch.view_as_complex(heads.unflatten(-1, (-1, 2))) * torch.view_as_complex(table)[:, None]
    turned = torch.view_as_real(pairs).flatten(-2)
    torch.testing.assert_close(torch.cat(cut[:2], dim=1), turned[:, :, :2].transpose(1, 2))
    assert torch.equal(cut[2], heads[:, :, 2:].transpose(1, 2))
    half = heads_of(joined.to(torch.bfloat16), (1, 1, 2), 8, table, turned=2)
    for narrow, wide in zip(half, cut, strict=True):
        torch.testing.assert_close(narrow.double(), wide, rtol=0.02, atol=0.02)
    with torch.no_grad():
        for same, wanted in zip(heads_of(joined.clone(), (1, 1, 2), 8, table, turned=2), cut, strict=True):
            assert torch.equal(same, wanted)
    joined.requires_grad_()
    assert gradcheck(lambda j: heads_of(j * 1.0, (1, 1, 2), 8, table, 2), (joined,))
    assert gradcheck(lambda j: heads_of(j * 1.0, (3, 1), 8), (joined,))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_linear_cross_entropy(monkeypatch: pytest.MonkeyPatch, reduction: str) -> None:
    monkeypatch.setattr(functional, "ROWS_PER_CHUNK", 4)
    x, weight = randn(2, 5, 6), randn(9, 6)
    targets = torch.tensor([[0, 8, -100, 3, 3], [1, -100, 2, 7, 0]])
    plain = F.cross_entropy((x @ weight.T).flatten(0, 1), targets.flatten(), reduction=reduction)
    torch.testing.assert_close(linear_cross_entropy(x, weight, targets, reduction), plain)
    assert gradcheck(lambda x, w: linear_cross_entropy(x, w, targets, reduction), (x, weight))
    score = linear_score(x, weight, targets)
    torch.testing.assert_close(
        score.nll, F.cross_entropy((x @ weight.T).flatten(0, 1), targets.flatten(), reduction="sum")
    )
    assert score.correct == ((x @ weight.T).argmax(-1) == targets).sum() and score.targets == 8


def test_no_targets_at_all_is_a_loss_of_zero() -> None:
    x, weight = randn(1, 3, 6), randn(9, 6)
    loss = linear_cross_entropy(x, weight, torch.full((1, 3), -100))
    loss.backward()
    assert loss == 0 and x.grad.abs().max() == 0


def test_weighted_sum() -> None:
    tensors = [randn(2, 3, n) for n in (4,) * 3]
    weights = randn(3)
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
