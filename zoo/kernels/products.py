"""Matrix products with a weight on the matrix, and the gradient of a matrix."""

from __future__ import annotations

from torch import Tensor


def scaled_matrix(matrix: Tensor, weight: Tensor | None) -> Tensor:
    """The matrix of a projection whose output is weighted: on the matrix the weight costs less than on the output."""
    return matrix if weight is None else matrix * weight


def weight_gradient(grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a weight in x weightᵀ, in its type, from that of the product."""
    return (grad.flatten(0, -2).T @ x.flatten(0, -2)).to(weight.dtype)
