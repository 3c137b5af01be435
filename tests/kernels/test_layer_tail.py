"""The rest of a layer as one function: it equals its formula, and stores less."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from helpers.random_tensors import randn
from torch import Tensor
from torch.autograd import gradcheck

from zoo.kernels.layer_tail import TailWeights, layer_tail


def test_rest_of_a_layer() -> None:
    x, heads, weights = randn(2, 3, 4), randn(2, 3, 5), TailWeights(randn(4, 5), randn(4), randn(12, 4), randn(4, 6))

    def plain(x: Tensor, heads: Tensor, weights: TailWeights) -> Tensor:
        normed = F.rms_norm(x + F.linear(heads, weights.out), (4,), weights.gain, 1e-5)
        gate, up = F.linear(normed, weights.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, weights.down)

    torch.testing.assert_close(layer_tail(x, heads, weights, 1e-5), plain(x, heads, weights))
    assert gradcheck(lambda x, heads, *w: layer_tail(x, heads, TailWeights(*w), 1e-5), (x, heads, *weights))
    narrow = [given.detach().float().requires_grad_() for given in (x, heads, *weights)]
    with torch.autocast("cpu", torch.bfloat16):
        half = layer_tail(narrow[0], narrow[1], TailWeights(*narrow[2:]), 1e-5)
    assert half.dtype == torch.bfloat16
    half.float().square().sum().backward()
    wanted = torch.autograd.grad(plain(x, heads, weights).square().sum(), (x, heads, *weights))
    for given, gradient in zip(narrow, wanted, strict=True):
        assert given.grad is not None and given.grad.dtype == torch.float32
        torch.testing.assert_close(
            given.grad.double() / gradient.abs().max(), gradient / gradient.abs().max(), rtol=0, atol=0.1
        )
