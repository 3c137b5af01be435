"""Taps with a bias and SiLU after them, against the formula: rows, gradients, parts, decoding, types."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.generation.generate import state_bag
from zoo.kernels import short_convolution, sums
from zoo.state import State
from zoo.sums import silu_taps


def formula(u: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    taps = weights.size(0)
    padded = F.pad(u, (0, 0, taps - 1, 0))
    rows = sum(weights[k] * padded[:, taps - 1 - k : padded.size(1) - k] for k in range(taps))
    assert isinstance(rows, Tensor)
    return F.silu(rows if bias is None else rows + bias)


def given(length: int, bias: bool) -> list[Tensor]:
    made = torch.Generator().manual_seed(0)
    shapes = [(3, length, 6), (4, 6), *([(6,)] if bias else [])]
    wide = [torch.randn(shape, generator=made, dtype=torch.float64) for shape in shapes]
    return [x.requires_grad_() for x in wide]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("length", [1, 3, 9])
def test_equals_the_formula(length: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "CACHE", 1)  # one row of the batch at a time
    u, weights, *rest = given(length, bias)
    own = rest[0] if rest else None
    exact = formula(u, weights, own)
    for widths in (None, [1, 3, 2]):
        parts = silu_taps(nn.Module(), u, weights, None, bias=own, widths=widths)
        assert [part.size(-1) for part in parts] == (widths or [6]) and all(part.is_contiguous() for part in parts)
        torch.testing.assert_close(torch.cat(parts, dim=-1), exact)
        grads = [torch.randn_like(part) for part in parts]
        ours = torch.autograd.grad(parts, [u, weights, *rest], grads)
        theirs = torch.autograd.grad(exact, [u, weights, *rest], torch.cat(grads, dim=-1), retain_graph=True)
        torch.testing.assert_close(ours, theirs)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
@pytest.mark.parametrize("taps", [1, 2, 4])
@pytest.mark.parametrize("bias", [False, True])
def test_one_pass_of_onednn(taps: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large enough in float32 it is a convolution, which autocast leaves alone; equal to the formula in float64."""
    monkeypatch.setattr(sums, "CACHE", 1 << 16)  # some rows of the batch at a time, the last ones fewer
    u, weights, *rest = (
        torch.randn(shape, dtype=torch.float64) for shape in [(5, 256, 40), (taps, 40), (40,)][: 2 + bias]
    )
    whole = torch.cat([u, u], dim=-1)  # rows lie apart in memory
    single = [x.float().requires_grad_() for x in (whole, weights, *rest)]
    double = [x.requires_grad_() for x in (whole, weights, *rest)]
    assert short_convolution._convolves(single[0][..., 20:60], single[1])
    exact = formula(double[0][..., 20:60], double[1], double[2] if bias else None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        parts = silu_taps(
            nn.Module(), single[0][..., 20:60], single[1], None, bias=single[2] if bias else None, widths=[30, 10]
        )
    torch.testing.assert_close(torch.cat(parts, dim=-1).double(), exact, rtol=1e-5, atol=1e-5)
    grad = torch.randn_like(exact)
    ours = torch.autograd.grad(parts, single, grad.float().split([30, 10], dim=-1))
    theirs = torch.autograd.grad(exact, double, grad)
    torch.testing.assert_close([x.double() for x in ours], list(theirs), rtol=1e-4, atol=1e-4)


def test_a_slice_of_a_wider_product() -> None:
    """As mixers give it: its rows lie apart in memory."""
    whole, weights = (
        torch.randn(2, 5, 9, dtype=torch.float64, requires_grad=True),
        torch.randn(3, 4, dtype=torch.float64),
    )
    (ours,) = torch.autograd.grad(silu_taps(nn.Module(), whole[..., 2:6], weights, None)[0].sum(), whole)
    (theirs,) = torch.autograd.grad(formula(whole[..., 2:6], weights, None).sum(), whole)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("split", [[9], [2, 2, 1, 4], [1] * 9])
def test_decoding_split_anyhow(split: list[int]) -> None:
    u, weights, bias = given(9, True)
    owner, bag, rows = nn.Module(), state_bag(9), []
    for part in u.split(split, dim=1):
        rows.append(torch.cat(silu_taps(owner, part, weights, State(bag), bias=bias, widths=[2, 4]), dim=-1))
        bag.increment_step_nr(part.size(1))
    torch.testing.assert_close(torch.cat(rows, dim=1), formula(u, weights, bias))


def test_compiled_it_is_the_same() -> None:
    u, weights, bias = given(5, True)
    compiled = torch.compile(lambda *x: silu_taps(nn.Module(), x[0], x[1], None, bias=x[2])[0], backend="eager")
    torch.testing.assert_close(compiled(u, weights, bias), formula(u, weights, bias))
