"""A causal convolution as long as the sequence, by Fourier transforms: O(T log T) per channel."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.kernels.autocast import at_least_single, without_autocast


def long_convolution(u: Tensor, kernel: Tensor) -> Tensor:
    """Σ_{k≤t} kernel_k ⊙ u_{t−k} of u (B, T, D) and a kernel (T′, D), T′ ≥ T; rows of the kernel beyond T do not count.

    It is computed in at least float32 and has the type of u. Its autograd is its own mirror, two transforms again. Rounding
    reaches backwards in time: a later input of size x moves earlier outputs by about 1e-6 x in float32, 1e-15 x in float64.
    """
    length = u.size(1)
    wide, kernel = at_least_single(u, kernel[:length])
    with without_autocast(u):
        size = 2 * length
        # Along the last dimension: along another one, torch tells its compiler of other strides than the result has.
        rows, taps = wide.transpose(1, 2).contiguous(), kernel.t().contiguous()
        product = torch.fft.rfft(rows, n=size) * torch.fft.rfft(taps, n=size)
        return torch.fft.irfft(product, n=size)[..., :length].transpose(1, 2).to(u.dtype)
