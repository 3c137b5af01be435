"""Torch's optimisers without its compiler, which they import when the first one is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch


def plain(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of torch's as it is written, without the decorators around it."""
    return inspect.unwrap(method)


class Undecorated(torch.optim.Optimizer):
    """What all optimisers inherit from torch: the same arithmetic, state and hooks.

    Only what its decorators do for `torch.compile` is left out. They import torch._dynamo, which takes 0.7 CPU-seconds
    and 110 MB at the start of every run; what is compiled here is the stack of blocks, never a step of the optimiser.
    """

    add_param_group = plain(torch.optim.Optimizer.add_param_group)
    zero_grad = plain(torch.optim.Optimizer.zero_grad)
    state_dict = plain(torch.optim.Optimizer.state_dict)
    load_state_dict = plain(torch.optim.Optimizer.load_state_dict)
