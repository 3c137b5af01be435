"""Taps with a bias and SiLU after them, against the formula: rows, gradients, parts, decoding, types."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.generation.generate import state_bag
from zoo.kernels import sums
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
