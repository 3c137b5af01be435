"""How attention knows where a token is."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from zoo.kernels.rotary import rotary_table
from zoo.model.rope_scaling import RopeScaling


class Positions(Protocol):
    """What turns queries and keys by the position of their token."""

    def table(self, start: int, length: int, device: torch.device) -> Tensor | None:
        """The turns of the positions start … start + length − 1, as `heads_of` takes them; None: no turn."""
        ...


@dataclass(frozen=True)
class Rotary:
    """Rotary positions (arXiv 2104.09864): pair j of a head turns by t · θ^(−2j/d) at position t, unless that is scaled."""

    head_dim: int  # d
    theta: float
    scaling: RopeScaling | None = None

    def table(self, start: int, length: int, device: torch.device) -> Tensor:
        room = 1 << (start + length - 1).bit_length()  # tables are shared by layers and lengths
        return _table(room, self.head_dim, self.theta, self.scaling, device)[start : start + length]


@dataclass(frozen=True)
class NoPositions:
    """No positions: a token's place shows in the causal mask alone."""

    def table(self, start: int, length: int, device: torch.device) -> None:
        return None


@functools.lru_cache(maxsize=16)
def _table(room: int, head_dim: int, theta: float, scaling: RopeScaling | None, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # the table outlives the pass that makes it, and training may come next
        return rotary_table(room, head_dim, theta, scaling).to(device)
