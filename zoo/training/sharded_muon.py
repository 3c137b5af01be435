"""Muon for matrices of which ranks hold parts."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.optim._muon import _adjust_lr, _zeropower_via_newtonschulz

from zoo.training.undecorated import Undecorated


class ShardedMuon(Undecorated, torch.optim.Muon):
    """Every rank gathers the whole update, makes it orthogonal, and moves the rows that are its own.

    The momentum is kept in parts. To make the update orthogonal takes each rank as long as it takes a process alone.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            matrices: list[torch.Tensor] = []
            gradients: list[torch.Tensor] = []
            momenta: list[torch.Tensor] = []
            self._init_group(group, matrices, gradients, momenta)
            for matrix, gradient, momentum in zip(matrices, gradients, momenta, strict=True):
                self._move(matrix, gradient, momentum, group)

    def _move(self, matrix: Any, gradient: Any, momentum: Any, group: dict[str, Any]) -> None:
        own, part, kept = matrix.to_local(), gradient.to_local(), momentum.to_local()
        kept.lerp_(part, 1 - group["momentum"])
        direction = part.lerp(kept, group["momentum"]) if group["nesterov"] else kept
        whole = DTensor.from_local(
            direction,
            matrix.device_mesh,
            matrix.placements,
            run_check=False,
            shape=matrix.shape,
            stride=matrix.stride(),
        ).full_tensor()
        orthogonal = _zeropower_via_newtonschulz(whole, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows = orthogonal.chunk(matrix.device_mesh.size())
        rank = matrix.device_mesh.get_local_rank()
        own.mul_(1 - group["lr"] * group["weight_decay"])
        if rank < len(rows):
            own.add_(rows[rank], alpha=-_adjust_lr(group["lr"], group["adjust_lr_fn"], matrix.shape))
