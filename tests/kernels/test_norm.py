"""The norm against its formula, value and gradient."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from helpers.random_tensors import randn
from torch.autograd import gradcheck

from zoo.kernels.norm import rms_norm


def test_rms_norm() -> None:
    x, gain = randn(2, 3, 8), randn(8)
    for g in (gain, None):
        torch.testing.assert_close(rms_norm(x, g, 1e-5), F.rms_norm(x, (8,), g, 1e-5))
    assert gradcheck(lambda x, g: rms_norm(x, g, 1e-5), (x, gain))
    assert gradcheck(lambda x: rms_norm(x, None, 1e-5), (x,))
