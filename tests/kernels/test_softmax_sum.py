"""The mean whose weights a query gives, against its formula, value and gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.random_tensors import randn
from torch.autograd import gradcheck

from zoo.kernels.softmax_sum import softmax_sum


def test_softmax_sum() -> None:
    w, tensors = randn(4), [randn(2, 3, n) for n in (4,) * 5]
    total, shares = softmax_sum(w, tensors, 1e-5)
    stacked = torch.stack(tensors)
    weights = torch.softmax(F.rms_norm(stacked, (4,), eps=1e-5) @ w, dim=0)[..., None]
    torch.testing.assert_close(shares, weights)
    torch.testing.assert_close(total, (weights * stacked).sum(dim=0))
    assert gradcheck(lambda w, *t: softmax_sum(w, t, 1e-5)[0], (w, *tensors))


def test_types_that_autocast_mixes() -> None:
    w, wide = randn(4).float().detach().requires_grad_(), randn(2, 3, 4).float().detach().requires_grad_()
    narrow = randn(2, 3, 4).bfloat16().detach().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = softmax_sum(w, [wide, narrow], 1e-5)
    total.sum().backward()
    assert total.dtype == torch.float32
    assert [t.grad.dtype for t in (w, wide, narrow)] == [torch.float32, torch.float32, torch.bfloat16]


def test_what_is_compiled_has_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    tensors = [randn(2, 3, n) for n in (4,) * 3]
    assert gradcheck(lambda w, *t: softmax_sum(w, t, 1e-5)[0], (randn(4), *tensors))
