"""RMSNorm that saves its input and one number per row, a product that follows it, and rows of length 1."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.shared_gradients import Place


def inverse_rms(x: Tensor, eps: float) -> Tensor:
    """1 / √(mean x² + ε) over the last dimension, in at least float32: (…, 1)."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=dtype)
    return norm.square_().div_(x.size(-1)).add_(eps).rsqrt_()


def row_scale(x: Tensor, eps: float) -> Tensor:
    """`inverse_rms` without anything in place, as autograd needs it."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return (torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=dtype).square() / x.size(-1) + eps).rsqrt()


class _RMSNorm(torch.autograd.Function):
    """Saves x and one number per row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor | None, eps: float) -> Tensor:
        scale = inverse_rms(x, eps)
        ctx.save_for_backward(x, gain, scale)
        y = x * scale
        if gain is not None:
            y = y.mul_(gain)
        return y.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, gain, scale = ctx.saved_tensors
        return *rms_norm_backward(grad, x, gain, scale, ctx.needs_input_grad[1]), None


def rms_norm_backward(
    grad: Tensor, x: Tensor, gain: Tensor | None, scale: Tensor, for_gain: bool
) -> tuple[Tensor, Tensor | None]:
    """The gradients of x and, `for_gain`, of the gain; `scale` is 1/rms of x."""
    normed = x * scale
    d_gain = None
    if gain is not None:
        product = grad * normed
        if for_gain:
            d_gain = product.sum(dim=tuple(range(product.dim() - 1))).to(gain.dtype)
        along = torch.matmul(product, gain.to(product.dtype)).unsqueeze(-1) / x.size(-1)
        d_x = torch.addcmul(grad * gain, normed, along, value=-1.0).mul_(scale)
    else:
        along = (grad * normed).mean(dim=-1, keepdim=True)
        d_x = torch.addcmul(grad, normed, along, value=-1.0).mul_(scale)
    return d_x.to(x.dtype), d_gain


def rms_norm(x: Tensor, gain: Tensor | None, eps: float) -> Tensor:
    """RMSNorm over the last dimension, with a gain or without."""
    if torch.compiler.is_compiling():
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        y = wide * (wide.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
        return (y if gain is None else y * gain).to(x.dtype)
    if not torch.is_grad_enabled():
        y = x * inverse_rms(x, eps)
        return (y if gain is None else y.mul_(gain)).to(x.dtype)
    return _RMSNorm.apply(x, gain, eps)


class _NormedProduct(torch.autograd.Function):
    """Saves x, the matrix, one number per row and the product. A thin matrix is multiplied as rows: several times faster."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, eps: float, centred: bool, dims: int) -> Tensor:
        flat = x.flatten(-dims)
        rows, mean, scale = _thin(flat, matrix, eps, centred)
        made = F.linear(flat, rows).to(scale.dtype).mul_(scale).to(x.dtype)
        ctx.centred, ctx.place = centred, Place(x)
        ctx.save_for_backward(x, rows, mean, scale, made)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        x, rows, mean, scale, made = ctx.saved_tensors
        flat = x.reshape(-1, rows.size(1))
        along = (grad * made).sum(dim=-1, keepdim=True).to(scale.dtype).mul_(scale.square()).div_(-flat.size(1))
        along, grad = along.view(-1, 1).to(x.dtype), (grad * scale).to(x.dtype).flatten(0, -2)
        d_x = d_matrix = None
        if ctx.needs_input_grad[1]:
            d_rows = grad.T @ flat
            d_matrix = (d_rows - d_rows.mean(dim=-1, keepdim=True) if ctx.centred else d_rows).T
        if ctx.needs_input_grad[0]:

            def add(total: Tensor | None) -> Tensor:
                back = rows.to(grad.dtype)
                d_flat = grad @ back if total is None else total.view_as(flat).addmm_(grad, back)
                d_flat.addcmul_(flat, along)
                if mean is not None:
                    d_flat.addcmul_(mean.view(-1, 1).to(x.dtype), along, value=-1)
                return d_flat.view(x.shape)

            d_x = ctx.place.put(add)
        return d_x, d_matrix, None, None, None


def _thin(x: Tensor, matrix: Tensor, eps: float, centred: bool) -> tuple[Tensor, Tensor | None, Tensor]:
    """The matrix as rows, the mean of each row of x if that is taken out of it, and one over its root mean square then."""
    rows = matrix.T.contiguous()
    if not centred:
        return rows, None, row_scale(x, eps)
    # (x − mean) W is x times W without the mean of its columns: no centred x is made.
    dtype = torch.promote_types(x.dtype, torch.float32)
    mean = x.mean(dim=-1, keepdim=True, dtype=dtype)
    squares = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=dtype).square() / x.size(-1)
    scale = (squares - mean.square()).clamp(min=0).add(eps).rsqrt()
    return rows - rows.mean(dim=-1, keepdim=True), mean, scale


def normed_product(x: Tensor, matrix: Tensor, eps: float, *, centred: bool = False, dims: int = 1) -> Tensor:
    """rms_norm(x) @ matrix for a thin matrix: the product is scaled instead of x, so no normed x is kept.

    `centred`: of x without its mean, a LayerNorm. `dims`: over so many of the last dimensions of x, taken as one.
    """
    if torch.compiler.is_compiling():
        flat = x.flatten(-dims)
        rows, _, scale = _thin(flat, matrix, eps, centred)
        return (F.linear(flat, rows) * scale).to(x.dtype)
    return _NormedProduct.apply(x, matrix, eps, centred, dims)


class _Unit(torch.autograd.Function):
    """Saves the rows as they become and one number for each."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        scale = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_(min=SHORTEST).reciprocal_()
        y = x * scale
        ctx.save_for_backward(y, scale)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        y, scale = ctx.saved_tensors
        along = (grad * y).sum(dim=-1, keepdim=True)
        return torch.addcmul(grad, y, along, value=-1.0).mul_(scale)


SHORTEST = 1e-12  # as F.normalize has it: a row of zeros stays one


def unit(x: Tensor) -> Tensor:
    """Rows over their length, along the last dimension."""
    return F.normalize(x, dim=-1, eps=SHORTEST) if torch.compiler.is_compiling() else _Unit.apply(x)
