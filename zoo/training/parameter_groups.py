"""The parameters of a model, grouped by how an optimiser is to treat them."""

from __future__ import annotations

from typing import Any

from torch import nn

from zoo.extension import Hint


def parameter_groups(model: nn.Module, lr: float, weight_decay: float) -> list[dict[str, Any]]:
    """Groups that honour every parameter's hint; without one, matrices decay and vectors do not."""
    groups: dict[Hint, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        hint = getattr(parameter, "zoo_hint", Hint(decay=parameter.dim() >= 2, lr_factor=1.0))
        groups.setdefault(hint, []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": lr * hint.lr_factor,
            "weight_decay": weight_decay if hint.decay else 0.0,
            "lr_factor": hint.lr_factor,
        }
        for hint, parameters in groups.items()
    ]
