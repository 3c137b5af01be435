"""Heads cut out of one product and turned by their positions."""

from __future__ import annotations

import torch
from helpers.random_tensors import randn
from torch.autograd import gradcheck

from zoo.kernels.rotary import heads_of, rotary_table


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
