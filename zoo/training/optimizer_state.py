"""What an optimiser keeps, by the names of parameters: whatever groups it has, and whoever holds which part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from zoo.training.optimizer import Optimizer

BY_NAME = "by_name"  # the key in a checkpoint's optimiser under which this is, in place of torch's numbered states


def states_by_name(trained: nn.Module, optimizer: Optimizer) -> dict[str, dict[str, Tensor]]:
    """Every tensor that the optimiser keeps of each parameter."""
    states = dict(_states(optimizer))
    return {name: states[parameter] for name, parameter in trained.named_parameters() if parameter in states}


def empty_states(
    trained: nn.Module, shapes: Mapping[tuple[str, str], tuple[torch.Size, torch.dtype]]
) -> dict[str, dict[str, Tensor]]:
    """Tensors of these shapes by parameter and key, each divided among ranks as its parameter is."""
    parameters = dict(trained.named_parameters())
    states: dict[str, dict[str, Tensor]] = {}
    for (name, key), (shape, dtype) in shapes.items():
        own = parameters[name]
        like = torch.zeros_like(own, dtype=dtype, requires_grad=False)
        states.setdefault(name, {})[key] = (
            like if shape == own.shape else torch.zeros(shape, dtype=dtype, device=own.device)
        )
    return states


def set_states(trained: nn.Module, optimizer: Optimizer, states: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Let the optimiser go on with these; a tensor of a parameter's shape goes where the parameter is."""
    names = {parameter: name for name, parameter in trained.named_parameters()}
    if unknown := sorted(states.keys() - set(names.values())):
        raise ValueError(f"the optimiser kept something of {unknown[0]}, which the model does not have")
    for part in _parts(optimizer):
        for group in part.param_groups:
            for parameter in group["params"]:
                kept = states.get(names[parameter], {})
                part.state[parameter] = {key: tensor.to(parameter.device) for key, tensor in kept.items()}


def _states(optimizer: Optimizer) -> Iterator[tuple[nn.Parameter, dict[str, Tensor]]]:
    for part in _parts(optimizer):
        yield from part.state.items()


def _parts(optimizer: Optimizer) -> tuple[Any, ...]:
    """The optimisers of torch that it consists of."""
    return tuple(getattr(optimizer, "parts", (optimizer,)))
