"""Sums over streams against their formula, value and gradient."""

from __future__ import annotations

import pytest
import torch
from helpers.random_tensors import randn
from torch import Tensor
from torch.autograd import gradcheck

from zoo.kernels.stream_mix import mixed_streams

SHAPES = {  # of mix, gains and branch
    "numbers": ((3, 2), (2,), (2, 5, 1, 4)),
    "per token": ((2, 5, 3, 2), (2, 5, 2), (2, 5, 1, 4)),
    "a branch per stream": ((2, 5, 3, 2), (2,), (2, 5, 2, 4)),
    "no branch": ((2, 5, 3, 1), None, None),
}


@pytest.mark.parametrize("compiling", [False, True])
@pytest.mark.parametrize("kind", SHAPES)
def test_equals_its_formula(kind: str, compiling: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    streams, others = randn(2, 5, 3, 4), [None if shape is None else randn(*shape) for shape in SHAPES[kind]]
    mix, gains, branch = others
    assert mix is not None
    expected = torch.einsum("...ij,...id->...jd", mix, streams)
    if gains is not None and branch is not None:
        expected = expected + gains[..., None] * branch
    torch.testing.assert_close(mixed_streams(streams, *others), expected)
    given = [streams, *(x for x in others if x is not None)]
    assert gradcheck(mixed_streams, given)


def test_the_streams_type_is_that_of_the_answer_and_all_gradients_have_their_own() -> None:
    for wide, narrow in ((torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)):
        shapes = {(2, 3, 4): wide, (2, 3, 2): narrow, (2, 2): narrow, (2, 1, 4): narrow}
        given: list[Tensor] = [randn(*shape).detach().to(dtype).requires_grad_() for shape, dtype in shapes.items()]
        answer = mixed_streams(*given)
        answer.sum().backward()
        assert answer.dtype == wide
        assert [x.grad.dtype for x in given if x.grad is not None] == [x.dtype for x in given]
