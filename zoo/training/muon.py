"""Muon for the matrices between hidden states, and AdamW for all else.

Muon makes the update of a matrix (m, n) orthogonal, so that each of its directions moves alike. Its steps are scaled by
0.2 · √max(m, n), which gives them the root mean square of AdamW's steps: one learning rate and one weight decay do for both
(Liu et al. 2025, Muon is Scalable for LLM Training). What several products share, such as queries, keys and values, is one
matrix here and made orthogonal as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from zoo.errors import ConfigError
from zoo.training.adamw import adamw_over
from zoo.training.parameter_groups import NOT_SCALED, is_hidden_matrix, is_shard, parameter_groups
from zoo.training.undecorated import Undecorated, plain

if TYPE_CHECKING:
    from zoo.training.update_settings import UpdateSettings


class Muon(Undecorated, torch.optim.Muon):
    """torch's Muon."""

    step = torch.no_grad()(plain(torch.optim.Muon.step))


class Joined:
    """Several optimisers, each over parameters of its own, as one."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts for group in part.param_groups]

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The states of the parts by their number; the groups of all, part by part."""
        states = [part.state_dict() for part in self.parts]
        return {
            "state": {number: state["state"] for number, state in enumerate(states)},
            "param_groups": [state["param_groups"] for state in states],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for number, (part, groups) in enumerate(zip(self.parts, state["param_groups"], strict=True)):
            part.load_state_dict({"state": state["state"][number], "param_groups": groups})


def make_muon(model: torch.nn.Module, settings: UpdateSettings) -> Joined:
    """Muon for hidden matrices without a hint; AdamW for embedding, output, norms, vectors, and what has a hint."""
    if getattr(model, "scaling", NOT_SCALED) != NOT_SCALED:
        raise ConfigError(
            "train.optimizer = 'muon' scales its steps by the shape of a matrix, and model.parametrization = 'completep' is for"
            " AdamW: leave one of them out"
        )
    hidden = is_hidden_matrix(model)
    matrices = parameter_groups(model, settings, hidden)
    others = parameter_groups(model, settings, lambda parameter: not hidden(parameter))
    parts: list[torch.optim.Optimizer] = []
    for sharded in (False, True):
        if groups := [group for group in matrices if is_shard(group["params"][0]) == sharded]:
            parts.append(_muon_over(groups, settings, sharded))
    return Joined(*parts, adamw_over(others, settings)) if others else Joined(*parts)


def _muon_over(groups: list[dict[str, Any]], settings: UpdateSettings, sharded: bool) -> torch.optim.Muon:
    kind: type[torch.optim.Muon] = Muon
    if sharded:
        from zoo.training.sharded_muon import ShardedMuon

        kind = ShardedMuon
    return kind(
        groups,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        momentum=settings.momentum,
        adjust_lr_fn="match_rms_adamw",
    )
