"""AdamW, over the groups of a model's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from zoo.training.parameter_groups import parameter_groups
from zoo.training.undecorated import Undecorated, plain

if TYPE_CHECKING:
    from zoo.training.update_settings import UpdateSettings


class AdamW(Undecorated, torch.optim.AdamW):
    """torch's AdamW."""

    step = torch.no_grad()(plain(torch.optim.AdamW.step))


def make_adamw(model: torch.nn.Module, settings: UpdateSettings) -> AdamW:
    """AdamW over the groups of a model's parameters."""
    return adamw_over(parameter_groups(model, settings), settings)


def adamw_over(groups: Sequence[dict[str, Any]], settings: UpdateSettings) -> AdamW:
    """AdamW over these groups."""
    return AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=True)
