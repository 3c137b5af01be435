"""SwiGLU against its formula, value and gradient."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from helpers.random_tensors import randn
from torch.autograd import gradcheck

from zoo.kernels.swiglu import swiglu


def test_swiglu() -> None:
    gate_up, down = randn(2, 3, 12), randn(4, 6)
    gate, up = gate_up.chunk(2, dim=-1)
    torch.testing.assert_close(swiglu(gate_up, down), (F.silu(gate) * up) @ down.T)
    assert gradcheck(swiglu, (gate_up, down))
