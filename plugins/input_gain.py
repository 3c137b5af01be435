"""A learned gain on what the FFN gets: a control for methods that also change the length of the FFN's input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.extension import Layer, TemporalMixing, hint, preset
from zoo.state import State


class InputGain(TemporalMixing):
    """z = ρu, ρ from 1."""

    site = "ffn"

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.rho = hint(nn.Parameter(torch.tensor(1.0)))

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return u * self.rho

    def probes(self) -> dict[str, Tensor]:
        return {"rho": self.rho}


input_gain = preset(InputGain, starts_as="baseline")
