"""Blocks cut at the borders of documents."""

from __future__ import annotations

import pytest
import torch
from helpers import random_models

from zoo.data.document_rows import IGNORE, SHORTEST, document_rows

EOS = 1


def block(*documents: list[int]) -> torch.Tensor:
    """A row of tokens, `eos` before each document."""
    return torch.tensor([token for document in documents for token in (EOS, *document)])


def test_each_document_is_a_row() -> None:
    tokens = torch.stack([block([2, 3, 4], [5], [6, 7]), torch.tensor([8, 9, EOS, EOS, 3, 4, 5, 6, 7])])
    targets = torch.cat([tokens[:, 1:], torch.tensor([[EOS], [EOS]])], dim=1)
    ((rows, wanted),) = document_rows(tokens, targets, EOS)
    counted = [(r[w != IGNORE].tolist(), w[w != IGNORE].tolist()) for r, w in zip(rows, wanted, strict=True)]
    assert counted == [
        ([1, 2, 3, 4], [2, 3, 4, 1]),
        ([1, 5], [5, 1]),
        ([1, 6, 7], [6, 7, 1]),
        ([8, 9], [9, 1]),
        ([1], [1]),
        ([1, 3, 4, 5, 6, 7], [3, 4, 5, 6, 7, 1]),
    ]


@pytest.mark.parametrize("length", [1, 7, 16, 33, 64, 100])
def test_every_target_is_there_once_and_rows_are_of_few_lengths(length: int) -> None:
    drawn = torch.Generator().manual_seed(length)
    tokens = torch.randint(1, 12, (5, length), generator=drawn)
    targets = torch.randint(0, 12, (5, length), generator=drawn)
    targets[-1, length // 2 :] = IGNORE  # the end of a split
    passes = document_rows(tokens, targets, EOS)
    assert len(passes) <= 4 and all(rows.shape == wanted.shape for rows, wanted in passes)
    widths = [rows.size(1) for rows, _ in passes]
    assert all(w == length or w >= SHORTEST and w & (w - 1) == 0 for w in widths) and len(set(widths)) == len(widths)
    pairs = [
        pair for rows, wanted in passes for pair in zip(rows.flatten().tolist(), wanted.flatten().tolist(), strict=True)
    ]
    expected = zip(tokens.flatten().tolist(), targets.flatten().tolist(), strict=True)
    assert sorted(p for p in pairs if p[1] != IGNORE) == sorted(p for p in expected if p[1] != IGNORE)
    for rows, wanted in passes:
        assert not ((rows[:, 1:] == EOS) & (wanted[:, 1:] != IGNORE)).any()  # a row is of one document


def test_the_loss_is_that_of_each_document_alone() -> None:
    model = random_models.random_model(depth=2, max_length=64).eval()
    documents = [
        torch.randint(2, 50, (n,), generator=torch.Generator().manual_seed(n)).tolist() for n in (3, 20, 1, 33, 3)
    ]
    tokens = block(*documents)[None]
    targets = torch.cat([tokens[:, 1:], torch.tensor([[EOS]])], dim=1)
    summed = sum(model.evaluate(rows, wanted).nll for rows, wanted in document_rows(tokens, targets, EOS))
    alone = sum(
        model.evaluate(torch.tensor([[EOS, *document]]), torch.tensor([[*document, EOS]])).nll for document in documents
    )
    assert summed == pytest.approx(float(alone), rel=1e-12)
    assert float(model.evaluate(tokens, targets).nll) != pytest.approx(float(alone), rel=1e-6)
