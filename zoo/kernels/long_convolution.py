"""A causal convolution as long as the sequence, by Fourier transforms: O(T log T) per channel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.autocast import at_least_single, without_autocast
from zoo.kernels.given import check_shapes, check_tokens


def long_convolution(u: Tensor, kernel: Tensor) -> Tensor:
    """Σ_{k≤t} kernel_k ⊙ u_{t−k} of u (B, T, D) and a kernel (T′, D), T′ ≥ T; rows of the kernel beyond T do not count.

    It is computed in at least float32 and has the type of u. It takes no state and leaves none: a method that knows what its
    kernel is made of carries that on. Rounding reaches backwards in time: a later input of size x moves earlier outputs by about
    1e-6 x in float32, 1e-15 x in float64, times the root of the sum of the kernel's squares.
    """
    length = u.size(1)
    check_tokens(length)
    check_shapes(kernel=(kernel, (kernel.size(0), u.size(2))))
    if kernel.size(0) < length:
        raise ValueError(
            f"a kernel of {kernel.size(0)} rows is too short for {length} tokens: "
            "give it a row per token, zeros where nothing is left"
        )
    wide, kernel = at_least_single(u, kernel[:length])
    with without_autocast(u):
        if torch.compiler.is_compiling():
            return _product(wide, _transformed(kernel.t(), length)).to(u.dtype)
        return _LongConvolution.apply(wide, kernel).to(u.dtype)


def _transformed(x: Tensor, length: int) -> Tensor:
    """(…, T) behind as many zeros, so that nothing comes round to the beginning."""
    return torch.fft.rfft(
        x.contiguous(), n=2 * length
    )  # along another dimension torch's compiler is told of wrong strides


def _back(x: Tensor, length: int) -> Tensor:
    return torch.fft.irfft(x, n=2 * length)[..., :length]


def _product(u: Tensor, taps: Tensor) -> Tensor:
    return _back(_transformed(u.mT, u.size(1)) * taps, u.size(1)).mT


class _LongConvolution(torch.autograd.Function):
    """Saves the input and the transform of the kernel: that of the input is twice as large, and is made again."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, kernel: Tensor) -> Tensor:
        taps = _transformed(kernel.t(), u.size(1))
        ctx.save_for_backward(u, taps)
        return _product(u, taps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Correlations of the gradient with the kernel and with the input."""
        u, taps = ctx.saved_tensors
        length, d_u, d_kernel = u.size(1), None, None
        with without_autocast(grad):
            of_grad = _transformed(grad.mT, length)
            if ctx.needs_input_grad[1]:
                d_kernel = _back((of_grad * _transformed(u.mT, length).conj()).sum(0), length).t()
            if ctx.needs_input_grad[0]:
                d_u = _back(of_grad * taps.conj(), length).mT
        return d_u, d_kernel
