"""The block's arithmetic, each piece saving less for backward than its plain form (docs/performance.md: what that gains).

Every function computes exactly what its one-line formula says. Under `torch.compile` the plain formulas are used: the
compiler fuses and recomputes by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

T = TypeVar("T")


def autocasts(x: Tensor) -> bool:
    """Whether autocast is on where x is."""
    return x.device.type != "meta" and torch.is_autocast_enabled(x.device.type)


def _with_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the type that autocast wants for a matrix product; as they are without autocast."""
    if autocasts(tensors[0]):
        return tuple(t.to(torch.get_autocast_dtype(t.device.type)) for t in tensors)
    return tensors


# -- RMSNorm: x / √(mean x² + ε) · gain ---------------------------------------------------------------------------------


def inverse_rms(x: Tensor, eps: float) -> Tensor:
    """1 / √(mean x² + ε) over the last dimension, in at least float32: (…, 1)."""
    kind = torch.promote_types(x.dtype, torch.float32)
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=kind)
    return norm.square_().div_(x.size(-1)).add_(eps).rsqrt_()


class _RMSNorm(torch.autograd.Function):
    """Saves x and one number a row."""

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
        return *_rms_norm_backward(grad, x, gain, scale, ctx.needs_input_grad[1]), None


def _rms_norm_backward(
    grad: Tensor, x: Tensor, gain: Tensor | None, scale: Tensor, for_gain: bool
) -> tuple[Tensor, Tensor | None]:
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


def normed_product(x: Tensor, matrix: Tensor, eps: float) -> Tensor:
    """rms_norm(x) @ matrix for a thin matrix: its result is normed, so no normed x is kept."""
    kind = torch.promote_types(x.dtype, torch.float32)
    mean = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=kind).square() / x.size(-1)
    return (x @ matrix) * (mean + eps).rsqrt().to(x.dtype)


# -- SwiGLU: (silu(g) ⊙ u) Wᵀ -------------------------------------------------------------------------------------------


class _SwiGLU(torch.autograd.Function):
    """Saves the joined product of gate and up alone; silu and its product are made again in backward."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor, down: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up, down)
        gate, up = gate_up.chunk(2, dim=-1)
        return F.linear(F.silu(gate).mul_(up), down)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        gate_up, down = ctx.saved_tensors
        return _swiglu_backward(grad, gate_up, down, ctx.needs_input_grad[1])


def _swiglu_backward(grad: Tensor, gate_up: Tensor, down: Tensor, for_down: bool) -> tuple[Tensor, Tensor | None]:
    gate, up = gate_up.chunk(2, dim=-1)
    d_inner = grad @ down.to(grad.dtype)
    silu = F.silu(gate)
    d_gate_up = torch.empty_like(gate_up)
    d_gate, d_up = d_gate_up.chunk(2, dim=-1)
    torch.mul(d_inner, silu, out=d_up)
    d_down = None
    if for_down:
        inner = silu.mul_(up)
        d_down = _weight_gradient(grad, inner.to(grad.dtype), down)
    torch.ops.aten.silu_backward.grad_input(d_inner.mul_(up), gate, grad_input=d_gate)
    return d_gate_up, d_down


def swiglu(gate_up: Tensor, down: Tensor) -> Tensor:
    """(silu(gate) ⊙ up) downᵀ from the joined gate and up (…, 2F)."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():  # without gradients nothing is saved anyway
        gate, up = gate_up.chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, down)
    return _SwiGLU.apply(gate_up, down)


# -- What follows attention in a layer: FFN(N(x + heads Wᵀ)) ------------------------------------------------------------


class Rest(NamedTuple):
    """The weights of a layer behind its attention."""

    out: Tensor
    gain: Tensor
    gate_up: Tensor
    down: Tensor


def make_again(part: Callable[..., T], *given: Any) -> T:
    """What backward makes once more in order not to keep it goes through here: the counter of FLOPs tells it by that."""
    return part(*given)


def _up_to_gate(
    x: Tensor, heads: Tensor, out: Tensor, gain: Tensor, gate_up: Tensor, eps: float, kind: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y, 1/rms of y, the normed y, and the joined gate and up; products are taken in `kind`."""
    y = x + F.linear(heads.to(kind), out.to(kind))
    scale = inverse_rms(y, eps)
    z = (y * scale).mul_(gain).to(kind)
    return y, scale, z, F.linear(z, gate_up.to(kind))


class _LeanRest(torch.autograd.Function):
    """Saves x and the heads: both are there anyway when layers are run again on one input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, heads: Tensor, eps: float, *weights: Tensor) -> Tensor:
        out, gain, gate_up, down = weights
        (like,) = _with_autocast(x)
        ctx.kind, ctx.eps = like.dtype, eps
        ctx.save_for_backward(x, heads, *weights)
        gate, up = _up_to_gate(x, heads, out, gain, gate_up, eps, ctx.kind)[-1].chunk(2, dim=-1)
        return F.linear(F.silu(gate).mul_(up), down.to(ctx.kind))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, heads, out, gain, gate_up, down = ctx.saved_tensors
        needed, kind = ctx.needs_input_grad, ctx.kind
        y, scale, z, product = make_again(_up_to_gate, x, heads, out, gain, gate_up, ctx.eps, kind)
        d_product, d_down = _swiglu_backward(grad, product, down, needed[6])
        d_gate_up = _weight_gradient(d_product, z, gate_up) if needed[5] else None
        d_z = (d_product @ gate_up.to(kind)).to(y.dtype)
        d_y, d_gain = _rms_norm_backward(d_z, y, gain, scale, needed[4])
        narrow = d_y.to(kind)
        d_out = _weight_gradient(narrow, heads.to(kind), out) if needed[3] else None
        return d_y, (narrow @ out.to(kind)).to(heads.dtype), None, d_out, d_gain, d_gate_up, d_down


def _weight_gradient(grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return (grad.flatten(0, -2).T @ x.flatten(0, -2)).to(weight.dtype)


def rest_of_layer(x: Tensor, heads: Tensor, weights: Rest, eps: float) -> Tensor:
    """FFN(N(x + heads outᵀ)), for x (B, T, D) and heads (B, T, H·d). All but these two is made again in backward."""
    return _LeanRest.apply(x, heads, eps, *weights)


# -- Rotary positions ---------------------------------------------------------------------------------------------------


def rotary_table(length: int, head_dim: int, theta: float) -> Tensor:
    """cos and sin of t · θ^(−2j/d): (length, d/2, 2), in float64."""
    frequencies = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
    return torch.stack([angles.cos(), angles.sin()], dim=-1)


def _rotate_(heads: Tensor, table: Tensor, sign: float) -> None:
    """Rotate the pairs (2j, 2j+1) of heads (B, T, H, d) in place."""
    pairs = heads.unflatten(-1, (-1, 2))
    if heads.dtype in (torch.float32, torch.float64):
        turn = torch.view_as_complex(table.to(heads.dtype))
        torch.view_as_complex(pairs).mul_((turn if sign > 0 else turn.conj())[:, None])
    else:  # no complex numbers in half precision
        pairs.copy_(_rotated(pairs.float(), table, sign))


def _rotated(pairs: Tensor, table: Tensor, sign: float) -> Tensor:
    cos, sin = table[:, None, :, 0].to(pairs.dtype), sign * table[:, None, :, 1].to(pairs.dtype)
    even, odd = pairs.unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)


def _cut(
    joined: Tensor, counts: tuple[int, ...], head_dim: int, table: Tensor | None, turned: int
) -> tuple[Tensor, ...]:
    """`heads_of`, in place."""
    heads = joined.unflatten(-1, (-1, head_dim))
    if table is not None:
        _rotate_(heads[:, :, :turned], table, 1.0)
    return tuple(part.transpose(1, 2) for part in heads.split(counts, dim=2))


class _Heads(torch.autograd.Function):
    """Works on a tensor that nobody else has: the product that made it does not need it in backward.

    In backward the parts are put where that product needs them; autograd's own way copies the whole several times.
    """

    @staticmethod
    def forward(
        ctx: Any, joined: Tensor, counts: tuple[int, ...], head_dim: int, table: Tensor | None, turned: int
    ) -> tuple[Tensor, ...]:
        ctx.shape, ctx.counts, ctx.turned = (*joined.shape[:2], sum(counts), head_dim), counts, turned
        ctx.save_for_backward(table)
        return _cut(joined, counts, head_dim, table, turned)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (table,) = ctx.saved_tensors
        heads = grads[0].new_empty(ctx.shape)
        for place, grad in zip(heads.split(ctx.counts, dim=2), grads, strict=True):
            place.copy_(grad.transpose(1, 2))
        if table is not None:
            _rotate_(heads[:, :, : ctx.turned], table, -1.0)
        return heads.flatten(2), None, None, None, None


def heads_of(
    joined: Tensor, counts: tuple[int, ...], head_dim: int, table: Tensor | None = None, turned: int = 0
) -> tuple[Tensor, ...]:
    """A fresh product (B, T, Σ counts · d), which is consumed, as heads: (B, count, T, d) for each count.

    With a `table` (T, d/2, 2), the first `turned` heads get rotary positions.
    """
    if torch.compiler.is_compiling():
        if table is not None:
            heads = joined.unflatten(-1, (-1, head_dim))
            new = _rotated(heads[:, :, :turned].unflatten(-1, (-1, 2)), table, 1.0).flatten(-2)
            joined = torch.cat([new.to(heads.dtype), heads[:, :, turned:]], dim=2).flatten(2)
        return _cut(joined, counts, head_dim, None, 0)
    cut = _Heads.apply if torch.is_grad_enabled() else _cut
    return cut(joined, counts, head_dim, table, turned)


# -- Output projection and cross-entropy --------------------------------------------------------------------------------

ROWS_PER_CHUNK = 512
IGNORED = -100


class _LinearCrossEntropy(torch.autograd.Function):
    """Chunks of rows; the gradient is made in the forward pass, so logits are never larger than chunk × vocabulary."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, scale: float) -> Tensor:
        compute_x, compute_w = _with_autocast(x, weight)
        d_x = torch.empty_like(compute_x) if ctx.needs_input_grad[0] else None
        d_w = torch.zeros_like(compute_w) if ctx.needs_input_grad[1] else None
        total = x.new_zeros((), dtype=torch.promote_types(x.dtype, torch.float32))
        space = compute_x.new_empty(min(ROWS_PER_CHUNK, x.size(0)), weight.size(0))
        for start in range(0, x.size(0), ROWS_PER_CHUNK):
            rows = slice(start, start + ROWS_PER_CHUNK)
            chunk, wanted = compute_x[rows], targets[rows]
            logits = torch.mm(chunk, compute_w.T, out=space[: chunk.size(0)]).to(total.dtype)
            counted = wanted != IGNORED
            picked = wanted.where(counted, 0)[:, None]
            target, top = logits.gather(1, picked), logits.amax(dim=-1, keepdim=True)
            shares = logits.sub_(top).exp_()  # softmax times its sum: dividing two thin products is cheaper
            sums = shares.sum(dim=-1, keepdim=True)
            total += ((top + sums.log() - target).squeeze(1) * counted).sum()
            shares.scatter_add_(1, picked, -sums)
            d_logits, factor = shares.to(compute_x.dtype), scale * counted[:, None] / sums
            if d_x is not None:
                d_x[rows] = (d_logits @ compute_w).mul_(factor)
            if d_w is not None:
                d_w.addmm_(d_logits.T, (chunk * factor).to(d_w.dtype))
        ctx.save_for_backward(d_x, d_w)
        ctx.kinds = (x.dtype, weight.dtype)
        return total * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        d_x, d_w = ctx.saved_tensors
        return (
            None if d_x is None else (d_x * grad).to(ctx.kinds[0]),
            None if d_w is None else (d_w * grad).to(ctx.kinds[1]),
            None,
            None,
        )


def linear_cross_entropy(
    x: Tensor, weight: Tensor, targets: Tensor, reduction: Literal["sum", "mean"] = "mean"
) -> Tensor:
    """Cross-entropy of softmax(x weightᵀ) against `targets`; a target of −100 does not count."""
    x, targets = x.flatten(0, -2), targets.flatten()
    if torch.compiler.is_compiling():
        return F.cross_entropy(x @ weight.T, targets, reduction=reduction, ignore_index=IGNORED)
    scale = 1.0
    if reduction == "mean":
        scale = 1.0 / max(1, int((targets != IGNORED).sum()))
    return _LinearCrossEntropy.apply(x, weight, targets, scale)


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
        wanted = targets[rows]
        nll += F.cross_entropy(logits, wanted, reduction="sum", ignore_index=IGNORED)
        correct += (logits.argmax(dim=-1) == wanted).sum()
    return Score(nll, correct, int((targets != IGNORED).sum()))
