"""A model of which every rank holds a part: its matrices, their gradients and what the optimiser keeps of them (FSDP2).

The blocks gather their weights when they are run, each for itself, and let go of them again. Vectors and scalars stay whole
on every rank, as does what is called outside of its block.

What is trained is a copy. The model itself has its weights only inside `whole`, where every rank may run it on its own, as
often as it likes: no rank waits for another there, so that validation, probes and checks are what they are on one process.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from zoo.training.replicas import NamedGradient, Replica

if TYPE_CHECKING:
    from zoo.training.ranks import Ranks


class Sharded(Replica):
    """A model of which every rank holds a part."""

    is_sharded = True
    is_whole = False

    def __init__(self, model: Any, ranks: Ranks) -> None:
        super().__init__(model, ranks)
        self.trained = self._called = _twin(model)
        hints = {name: vars(parameter) for name, parameter in self.trained.named_parameters()}
        whole = _unsharded(self.trained)
        mesh = init_device_mesh(ranks.device.type, (ranks.size,))
        with ranks.exchange(computes=True):
            for unit in (*_units(self.trained), self.trained):
                fully_shard(unit, mesh=mesh, ignored_params=whole)
        for name, parameter in self.trained.named_parameters():
            vars(parameter).update(hints[name])  # FSDP makes parameters of its own
        self._vacate()

    def exchange_rest(self) -> None:
        """Average the gradients of what is whole on every rank, in one exchange."""
        parameters = [p for p in self.trained.parameters() if p.requires_grad and not isinstance(p, DTensor)]
        if not parameters:
            return
        present = parameters[0].new_tensor([float(p.grad is not None) for p in parameters])
        values = [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters]
        total = torch.cat([*values, present])
        with self.ranks.exchange():
            dist.all_reduce(total)
        *means, counts = total.split([*(p.numel() for p in parameters), len(parameters)])
        for parameter, mean, count in zip(parameters, means, counts.tolist(), strict=True):
            parameter.grad = mean.div(self.ranks.size).view_as(parameter) if count else None

    def gradients(self) -> list[NamedGradient]:
        return [NamedGradient(name, _local(gradient)) for name, gradient in super().gradients()]

    def norm(self) -> float:
        gradients = [gradient for _, gradient in super().gradients()]
        shards = _norm([gradient.to_local() for gradient in gradients if isinstance(gradient, DTensor)])
        others = _norm([gradient for gradient in gradients if not isinstance(gradient, DTensor)])
        (total,) = self.ranks.sum([shards**2])
        return math.sqrt(total + others**2)

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        if self.is_whole:
            yield
            return
        with self.ranks.exchange(), torch.no_grad():
            own = dict(self.trained.named_parameters())
            for name, parameter in self.model.named_parameters():
                parameter.data = whole_tensor(own[name].detach())
        buffers = dict(self.trained.named_buffers())
        for name, buffer in self.model.named_buffers():
            buffer.copy_(buffers[name])
        self.is_whole = True
        try:
            yield
        finally:
            self.is_whole = False
            self._vacate()

    def _vacate(self) -> None:
        """Let go of the model's weights: their shapes stay, and a use of them gives NaN."""
        for parameter in self.model.parameters():
            parameter.data = parameter.data.new_full((), math.nan).expand(parameter.shape)


def whole_tensor(tensor: Tensor) -> Tensor:
    """All of a tensor of which ranks may hold parts; all ranks call this together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@torch.no_grad()
def fill(own: Tensor, value: Tensor) -> None:
    """Copy a whole tensor to one of which this rank may hold a part only."""
    if not isinstance(own, DTensor):
        own.copy_(value)
        return
    mesh, placement = own.device_mesh, own.placements[0]
    parts = value.chunk(mesh.size(), getattr(placement, "dim", 0))
    rank = mesh.get_local_rank()
    if rank < len(parts):  # a tensor with few rows has none for the last ranks
        own.to_local().copy_(parts[rank])


def _norm(tensors: list[Tensor]) -> float:
    return torch.nn.utils.get_total_norm(tensors).item() if tensors else 0.0


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _twin(model: nn.Module) -> nn.Module:
    """A copy of a model that shares the memory of its weights, with parameters of its own."""
    own: dict[int, Any] = {}
    for parameter in model.parameters():
        own[id(parameter)] = twin = nn.Parameter(parameter.data, parameter.requires_grad)
        vars(twin).update(vars(parameter))
    return copy.deepcopy(model, own)


def _units(model: nn.Module) -> list[nn.Module]:
    """The parts of a model that gather their weights each for itself: its blocks.

    None where a layer runs earlier ones again or shares weights with them: then all weights are gathered at once, for the
    whole pass.
    """
    users: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        users.setdefault(id(parameter), set()).add("".join(name.split(".")[:2]) if name.startswith("layers.") else "")
    if "blocks" in getattr(model, "reads", ()) or any(len(names) > 1 for names in users.values()):
        return []
    return list(model.layers)  # type: ignore[arg-type]


def _unsharded(model: nn.Module) -> set[nn.Parameter]:
    """The parameters that stay whole: vectors and scalars, and those of what is called outside of its block."""
    outside = {p for part in getattr(model, "outer_parts", list)() for p in part.parameters()}
    return outside | {p for p in model.parameters() if p.dim() < 2}
