"""One attention pattern that many layers attend with: the gradients of its queries and keys are made once, for all.

In backward a reader makes the gradient of its values and defers the rest to where the heads' gradients are gathered
(`zoo.kernels.shared_gradients`): there the readers are side by side, and the gradient of the pattern is one product.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.blocked_attention import Gradient, Joined, Term, add_product, fill, matrices, parts
from zoo.kernels.grouped_heads import repeat_heads
from zoo.kernels.shared_gradients import gathered_for

LONG = 128  # tokens: with fewer, the fused kernel's own backward is as fast


def shares(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether `attend_shared` can attend with these heads, and is worth it."""
    node = gathered_for(q)
    return (
        node is not None
        and node is gathered_for(k)
        and (q.output_nr, k.output_nr) == (0, 1)
        and q.device.type == "cpu"
        and q.dtype in (torch.float32, torch.float64)
        and q.size(2) == k.size(2) >= LONG
        and k.shape == v.shape
    )


def attend_shared(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """softmax(mask(scale q kᵀ)) v for q (B, H, T, d) and k (B, Hkv, T, d) that come from one `share_gradients`."""
    return _Reading.apply(q, k, v, scale)


class _Reading(torch.autograd.Function):
    """`attend_shared`: the fused kernel forward, and a backward that returns the gradient of v alone."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        ctx.node, ctx.scale = gathered_for(q), scale
        ctx.save_for_backward(q, k, v)
        k, v = repeat_heads(q, k, v)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor, None]:
        q, k, v = ctx.saved_tensors
        deferred = ctx.node.now().deferred
        if ctx.scale not in deferred:
            deferred[ctx.scale] = _Readings(Term(q, k, ctx.scale))
        return None, None, deferred[ctx.scale].read(v, grad), None


class _Readings:
    """The readers of one pattern in a backward pass: their values and gradients, for what is deferred."""

    def __init__(self, term: Term) -> None:
        self.term = term
        self.parts = list(parts([term]))
        self.values: list[Tensor] = []
        self.grads: list[Tensor] = []  # of what was attended

    def read(self, v: Tensor, grad: Tensor) -> Tensor:
        """The gradient of a reader's v; the reader is noted for the gradients of q and k."""
        self.values.append(v)
        self.grads.append(grad)
        d_v = torch.empty_like(v)
        for part in self.parts:
            joined = Joined((self.term,), part)
            d_out, d_values = joined.heads_of(grad), v.new_empty(joined.k.shape)
            for rows in joined.blocks:
                add_product(d_values, rows, joined.pattern(rows).mT, matrices(d_out, rows))
            fill(d_v[part.of_keys], d_values)
        return d_v

    def gradients(self) -> tuple[Tensor, Tensor]:
        """The gradients of q and k, over all readers."""
        of_q, of_k = (Gradient(x, self.term.query) for x in (self.term.q, self.term.k))
        for part in self.parts:
            joined = Joined((self.term,), part)
            d_out, values = joined.heads_of(*self.grads), joined.values_of(*self.values)
            d_q, d_k = torch.empty_like(joined.q), torch.empty_like(joined.k)
            for rows in joined.blocks:
                p, d_p = joined.pattern(rows), joined.d_pattern(rows, d_out, values)
                joined.add_gradients(rows, p, d_p, d_q, d_k)
            of_q.add(part.of_queries, d_q.flatten(0, 1), joined.scale)
            of_k.add(part.of_keys, d_k, joined.scale)
        return of_q.total, of_k.total
