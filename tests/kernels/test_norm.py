"""The norm against its formula, value and gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.random_tensors import randn
from torch.autograd import gradcheck

from zoo.kernels.norm import normed_product, rms_norm, unit


def test_rms_norm() -> None:
    x, gain = randn(2, 3, 8), randn(8)
    for g in (gain, None):
        torch.testing.assert_close(rms_norm(x, g, 1e-5), F.rms_norm(x, (8,), g, 1e-5))
    assert gradcheck(lambda x, g: rms_norm(x, g, 1e-5), (x, gain))
    assert gradcheck(lambda x: rms_norm(x, None, 1e-5), (x,))


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("centred", [False, True])
def test_normed_product(centred: bool, columns: int) -> None:
    x, matrix = randn(2, 3, 8), randn(8, columns)
    normed = F.layer_norm(x, (8,), eps=1e-5) if centred else F.rms_norm(x, (8,), eps=1e-5)
    torch.testing.assert_close(normed_product(x, matrix, 1e-5, centred=centred), normed @ matrix)
    assert gradcheck(lambda x, m: normed_product(x, m, 1e-5, centred=centred), (x, matrix))


def test_normed_product_over_two_dimensions() -> None:
    x, matrix = randn(2, 3, 4), randn(12, 5)
    expected = F.rms_norm(x.flatten(1), (12,), eps=1e-5) @ matrix
    torch.testing.assert_close(normed_product(x, matrix, 1e-5, dims=2), expected)
    assert gradcheck(lambda x, m: normed_product(x, m, 1e-5, dims=2), (x, matrix))


def test_normed_product_of_another_type() -> None:
    x, matrix = randn(2, 3, 8).float().detach(), randn(8, 3).float().detach()
    expected = F.rms_norm(x, (8,), eps=1e-5) @ matrix
    with torch.autocast("cpu", dtype=torch.bfloat16):
        answer = normed_product(x.requires_grad_(), matrix, 1e-5)
    answer.sum().backward()
    assert answer.dtype == x.grad.dtype == torch.float32
    torch.testing.assert_close(answer, expected, rtol=0.05, atol=0.05)
    narrow = normed_product(x.bfloat16(), matrix.bfloat16(), 1e-5)
    assert narrow.dtype == torch.bfloat16


def test_what_is_compiled_has_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for centred in (False, True):
        assert gradcheck(lambda x, m, c=centred: normed_product(x, m, 1e-5, centred=c), (randn(2, 3, 8), randn(8, 3)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_of_length_one(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4, 5, dtype=dtype)
    x[0, 1] = 0  # a row of zeros stays one
    x.requires_grad_()
    ours, theirs = unit(x), F.normalize(x, dim=-1)
    torch.testing.assert_close(ours, theirs)
    assert not ours[0, 1].any()
    grad = torch.randn_like(x)
    torch.testing.assert_close(torch.autograd.grad(ours, x, grad), torch.autograd.grad(theirs, x, grad))
