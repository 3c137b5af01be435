"""Output projection and cross-entropy in chunks of rows, so that logits are never kept."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.autocast import autocast_to

ROWS_PER_CHUNK = 512
IGNORED = -100


class _LinearCrossEntropy(torch.autograd.Function):
    """Chunks of rows; the gradient is made in the forward pass, so logits are never larger than chunk × vocabulary."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, scale: float, z_loss: float) -> Tensor:
        compute_x, compute_w = autocast_to(x, weight)
        d_x = torch.empty_like(compute_x) if ctx.needs_input_grad[0] else None
        d_w = torch.zeros_like(compute_w) if ctx.needs_input_grad[1] else None
        total = x.new_zeros((), dtype=torch.promote_types(x.dtype, torch.float32))
        space = compute_x.new_empty(min(ROWS_PER_CHUNK, x.size(0)), weight.size(0))
        for start in range(0, x.size(0), ROWS_PER_CHUNK):
            rows = slice(start, start + ROWS_PER_CHUNK)
            chunk, right = compute_x[rows], targets[rows]
            logits = torch.mm(chunk, compute_w.T, out=space[: chunk.size(0)]).to(total.dtype)
            counted = right != IGNORED
            picked = right.where(counted, 0)[:, None]
            target, top = logits.gather(1, picked), logits.amax(dim=-1, keepdim=True)
            shares = logits.sub_(top).exp_()  # softmax times its sum: dividing two thin products is cheaper
            sums = shares.sum(dim=-1, keepdim=True)
            log_sums = top + sums.log()
            total += ((log_sums - target).squeeze(1) * counted).sum()
            if z_loss:
                total += z_loss * (log_sums.square().squeeze(1) * counted).sum()
                shares.mul_(1 + 2 * z_loss * log_sums)
            shares.scatter_add_(1, picked, -sums)
            d_logits, factor = shares.to(compute_x.dtype), scale * counted[:, None] / sums
            if d_x is not None:
                d_x[rows] = (d_logits @ compute_w).mul_(factor)
            if d_w is not None:
                d_w.addmm_(d_logits.T, (chunk * factor).to(d_w.dtype))
        ctx.save_for_backward(d_x, d_w)
        ctx.dtypes = (x.dtype, weight.dtype)
        return total * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        d_x, d_w = ctx.saved_tensors
        return (
            None if d_x is None else (d_x * grad).to(ctx.dtypes[0]),
            None if d_w is None else (d_w * grad).to(ctx.dtypes[1]),
            None,
            None,
            None,
        )


def linear_cross_entropy(
    x: Tensor, weight: Tensor, targets: Tensor, reduction: Literal["sum", "mean"] = "mean", z_loss: float = 0.0
) -> Tensor:
    """Cross-entropy of softmax(x weightᵀ) against `targets`, + z_loss · (log Σ exp logits)²; a target of −100 does not count."""
    x, targets = x.flatten(0, -2), targets.flatten()
    if torch.compiler.is_compiling():
        return _plain(x @ weight.T, targets, reduction, z_loss)
    scale = 1.0
    if reduction == "mean":
        scale = 1.0 / max(1, int((targets != IGNORED).sum()))
    return _LinearCrossEntropy.apply(x, weight, targets, scale, z_loss)


def _plain(logits: Tensor, targets: Tensor, reduction: str, z_loss: float) -> Tensor:
    """`linear_cross_entropy` by plain torch functions, with all logits in memory."""
    loss = F.cross_entropy(logits, targets, reduction=reduction, ignore_index=IGNORED)
    if not z_loss:
        return loss
    counted = targets != IGNORED
    squares = (logits.logsumexp(dim=-1).square() * counted).sum()
    return loss + z_loss * (squares / counted.sum().clamp(min=1) if reduction == "mean" else squares)


class Score(NamedTuple):
    """How well a batch was predicted."""

    nll: Tensor  # summed over the targets, nats
    correct: Tensor
    targets: int  # how many there were


@torch.no_grad()
def linear_score(x: Tensor, weight: Tensor, targets: Tensor) -> Score:
    """Summed cross-entropy and the number of targets that have the largest logit."""
    x, targets = x.flatten(0, -2), targets.flatten()
    nll = x.new_zeros((), dtype=torch.float64 if x.device.type == "cpu" else torch.float32)
    correct = targets.new_zeros(())
    for start in range(0, x.size(0), ROWS_PER_CHUNK):
        rows = slice(start, start + ROWS_PER_CHUNK)
        logits = F.linear(x[rows], weight).float() if x.dtype != torch.float64 else F.linear(x[rows], weight)
        right = targets[rows]
        nll += F.cross_entropy(logits, right, reduction="sum", ignore_index=IGNORED)
        correct += (logits.argmax(dim=-1) == right).sum()
    return Score(nll, correct, int((targets != IGNORED).sum()))
