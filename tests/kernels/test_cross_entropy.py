"""The loss from hidden states, in chunks, against the formula over all logits."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.random_tensors import randn
from torch.autograd import gradcheck

from zoo.kernels import cross_entropy
from zoo.kernels.cross_entropy import linear_cross_entropy, linear_score


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_linear_cross_entropy(monkeypatch: pytest.MonkeyPatch, reduction: str) -> None:
    monkeypatch.setattr(cross_entropy, "ROWS_PER_CHUNK", 4)
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


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_z_loss_is_the_squared_log_sum_in_value_and_gradient(
    monkeypatch: pytest.MonkeyPatch, reduction: str
) -> None:
    monkeypatch.setattr(cross_entropy, "ROWS_PER_CHUNK", 4)
    x, weight = randn(2, 5, 6), randn(9, 6)
    targets = torch.tensor([[0, 8, -100, 3, 3], [1, -100, 2, 7, 0]])
    logits, flat = (x @ weight.T).flatten(0, 1), targets.flatten()
    squares = logits.exp().sum(-1).log().square()[flat != -100]
    plain = F.cross_entropy(logits, flat, reduction=reduction) + 0.3 * getattr(squares, reduction)()
    made = linear_cross_entropy(x, weight, targets, reduction, z_loss=0.3)
    torch.testing.assert_close(made, plain)
    torch.testing.assert_close(cross_entropy._plain(logits, flat, reduction, 0.3), plain)
    ours, theirs = torch.autograd.grad(made, (x, weight)), torch.autograd.grad(plain, (x, weight))
    torch.testing.assert_close(ours, theirs)
