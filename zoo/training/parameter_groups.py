"""The parameters of a model, grouped by how an optimiser is to treat them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import nn

from zoo.extension import Hint

if TYPE_CHECKING:
    from zoo.training.update_settings import UpdateSettings


def parameter_groups(
    model: nn.Module, settings: UpdateSettings, chosen: Callable[[nn.Parameter], bool] | None = None
) -> list[dict[str, Any]]:
    """Groups that honour every parameter's hint; without one, matrices decay and vectors do not.

    `chosen` tells which parameters they are of; without it, all.
    """
    vocabulary = vocabulary_ids(model)
    groups: dict[Hint, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if chosen is None or chosen(parameter):
            decays = parameter.dim() >= 2 and (settings.decay_embeddings or id(parameter) not in vocabulary)
            hint = getattr(parameter, "zoo_hint", Hint(decay=decays, lr_factor=1.0))
            groups.setdefault(hint, []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": settings.lr * hint.lr_factor,
            "weight_decay": settings.weight_decay if hint.decay else 0.0,
            "lr_factor": hint.lr_factor,
        }
        for hint, parameters in groups.items()
    ]


def vocabulary_ids(model: nn.Module) -> set[int]:
    """The ids of the parameters that have a row per token of the vocabulary."""
    of_model: Callable[[], list[nn.Parameter]] = getattr(model, "vocabulary_parameters", list)
    return set(map(id, of_model()))


def is_hidden_matrix(model: nn.Module) -> Callable[[nn.Parameter], bool]:
    """Whether a parameter of this model is a matrix between two hidden states and asks for nothing by a hint."""
    vocabulary = vocabulary_ids(model)
    return lambda parameter: (
        parameter.dim() == 2 and id(parameter) not in vocabulary and not hasattr(parameter, "zoo_hint")
    )
