"""Gradients of queries and keys that many layers read, added up in one place instead of one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Late(Protocol):
    """What can be made only when all have read."""

    def gradients(self) -> tuple[Tensor, ...]:
        """One for each of the tensors."""
        ...


@dataclass
class Gathered:
    """What the readers of some tensors have left so far in the backward pass under way."""

    totals: dict[int, Tensor] = field(default_factory=dict)  # by the number of the tensor
    late: dict[float, Late] = field(default_factory=dict)  # by whatever tells the readers' kinds apart
    task: int = -1  # the backward pass

    def now(self) -> Gathered:
        """Itself, without what an earlier backward pass left that did not come to its end."""
        task = torch._C._current_graph_task_id()
        if self.task != task:
            self.task, self.totals, self.late = task, {}, {}
        return self

    def take(self) -> dict[int, Tensor]:
        """The whole, by the number of the tensor; nothing is left."""
        totals, late = self.now().totals, self.late
        self.totals, self.late = {}, {}
        for readers in late.values():
            for i, grad in enumerate(readers.gradients()):
                totals[i] = totals[i].add_(grad) if i in totals else grad
        return totals


class _Gather(torch.autograd.Function):
    """The identity. Whoever reads its results may leave a gradient in `gathered` instead of returning one.

    Backward comes here when all readers have done so: the graph has an edge from each of them.
    """

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.gathered = Gathered()
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *returned: Tensor | None) -> tuple[Tensor | None, ...]:
        totals = ctx.gathered.take()
        return tuple(_sum(totals.get(i), grad) for i, grad in enumerate(returned))


def _sum(total: Tensor | None, grad: Tensor | None) -> Tensor | None:
    if total is None or grad is None:
        return grad if total is None else total
    return total.add_(grad)


def gather(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, for readers in many layers."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return _Gather.apply(*tensors)
    return tensors


def gathered(x: Tensor) -> Gathered | None:
    """Where the gradient of x is gathered; x.output_nr is its number."""
    return getattr(x.grad_fn, "gathered", None)
