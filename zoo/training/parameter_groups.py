"""The parameters of a model, grouped by how an optimiser is to treat them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from zoo.extension import Hint

if TYPE_CHECKING:
    from zoo.training.update_settings import UpdateSettings

NOT_SCALED = (1.0, 1.0)  # in width and depth


def parameter_groups(
    model: nn.Module, settings: UpdateSettings, chosen: Callable[[nn.Parameter], bool] | None = None
) -> list[dict[str, Any]]:
    """Groups that honour every parameter's hint; without one, matrices decay and vectors do not.

    The rates, decays and ε of a model that is scaled from another one are those of `zoo.model.completep`. `chosen` tells
    which parameters they are of; without it, all.
    """
    groups: dict[tuple[Treatment, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if chosen is None or chosen(parameter):
            kind = _treatment(model, name, parameter, settings), is_shard(parameter)
            groups.setdefault(kind, []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": settings.lr * treatment.lr_factor,
            "weight_decay": treatment.weight_decay,
            "lr_factor": treatment.lr_factor,
            **({} if treatment.eps is None else {"eps": treatment.eps}),
        }
        for (treatment, _), parameters in groups.items()
    ]


def is_shard(parameter: nn.Parameter) -> bool:
    """Whether ranks hold parts of it: torch updates such parameters and others in groups of their own."""
    return hasattr(parameter, "full_tensor")


class Treatment(NamedTuple):
    """How an optimiser treats a parameter."""

    weight_decay: float
    lr_factor: float
    eps: float | None  # None: the optimiser's


def _treatment(model: nn.Module, name: str, parameter: nn.Parameter, settings: UpdateSettings) -> Treatment:
    in_vocabulary = id(parameter) in vocabulary_ids(model)
    decays = parameter.dim() >= 2 and (settings.decay_embeddings or not in_vocabulary)
    hint = getattr(parameter, "zoo_hint", Hint(decay=decays, lr_factor=1.0))
    decay = settings.weight_decay if hint.decay else 0.0
    wider, deeper = getattr(model, "scaling", NOT_SCALED)
    if (wider, deeper) == NOT_SCALED:
        return Treatment(decay, hint.lr_factor, None)
    eps = settings.eps / (wider * deeper if name.startswith("layers.") else wider)
    hidden = (
        parameter.dim() >= 2 and not in_vocabulary and hint.decay
    )  # taps and tables grow with one dimension: no decay
    return Treatment(decay * wider, hint.lr_factor / wider, eps) if hidden else Treatment(decay, hint.lr_factor, eps)


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
