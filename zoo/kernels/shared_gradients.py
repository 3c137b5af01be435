"""Tensors that several functions read: their gradients add up in one place, instead of one per reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Deferred(Protocol):
    """Gradients that can be computed only after every reader's backward has run."""

    def gradients(self) -> tuple[Tensor, ...]:
        """One gradient for each of the shared tensors, over all readers."""
        ...


@dataclass
class Gathered:
    """What the readers of some tensors have contributed so far in the backward pass under way."""

    totals: dict[int, Tensor] = field(default_factory=dict)  # by the number of the tensor
    deferred: dict[object, Deferred] = field(default_factory=dict)  # by what its readers have in common
    task: int = -1  # the backward pass
    notes: dict[object, Tensor] = field(default_factory=dict)  # what one reader made of the tensor that others need too

    def now(self) -> Gathered:
        """This object, emptied of what an unfinished earlier backward pass left in it."""
        task = torch._C._current_graph_task_id()
        if self.task != task:
            self.task, self.totals, self.deferred = task, {}, {}
        return self

    def take(self) -> dict[int, Tensor]:
        """The gradients of all readers, by the number of the tensor; nothing stays here."""
        totals, deferred = self.now().totals, self.deferred
        self.totals, self.deferred = {}, {}
        for readers in deferred.values():
            for i, grad in enumerate(readers.gradients()):
                totals[i] = totals[i].add_(grad) if i in totals else grad
        return totals


class _Share(torch.autograd.Function):
    """The identity. A reader of its outputs may add its gradient to `gathered` instead of returning one.

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


def share_gradients(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, for several readers: those that know of it add to one gradient per tensor."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return _Share.apply(*tensors)
    return tensors


def gathered_for(x: Tensor) -> Gathered | None:
    """Where the gradient of x is gathered, under the number x.output_nr; None: x is not shared."""
    place = getattr(x.grad_fn, "gathered", None)
    return place if isinstance(place, Gathered) else None  # another function may have something of this name


class Place:
    """Where a reader of x puts the gradient of x: noted in its forward, used in its backward."""

    def __init__(self, x: Tensor) -> None:
        self.gathered, self.number = gathered_for(x), x.output_nr

    def put(self, add: Callable[[Tensor | None], Tensor]) -> Tensor | None:
        """What the reader returns. `add` gives its gradient, or adds it in place to those before it."""
        if self.gathered is None:
            return add(None)
        totals = self.gathered.now().totals
        totals[self.number] = add(totals.get(self.number))
        return None
