"""AdamW, without the compiler of torch, which torch's own optimisers import when the first one is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from zoo.training.parameter_groups import parameter_groups

if TYPE_CHECKING:
    from zoo.training.update_settings import UpdateSettings


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of torch's as it is written, without the decorators around it."""
    return inspect.unwrap(method)


class AdamW(torch.optim.AdamW):
    """torch's AdamW: the same arithmetic, state and hooks.

    Only what its decorators do for `torch.compile` is left out. They import torch._dynamo, which takes 0.7 CPU-seconds
    and 110 MB at the start of every run; what is compiled here is the stack of blocks, never a step of the optimiser.
    """

    add_param_group = _plain(torch.optim.Optimizer.add_param_group)
    zero_grad = _plain(torch.optim.Optimizer.zero_grad)
    state_dict = _plain(torch.optim.Optimizer.state_dict)
    load_state_dict = _plain(torch.optim.Optimizer.load_state_dict)
    step = torch.no_grad()(_plain(torch.optim.AdamW.step))


def make_adamw(model: torch.nn.Module, settings: UpdateSettings) -> AdamW:
    """AdamW over the groups of a model's parameters."""
    groups = parameter_groups(model, settings.lr, settings.weight_decay)
    return AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=True)
