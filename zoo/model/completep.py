"""CompleteP: a parametrisation in which the best learning rate hardly changes with width and depth (Dey et al. 2025).

With m_N the width and m_L the depth as multiples of a base model's, at which all settings were chosen:

- a sublayer's output × m_L⁻¹, the logits × m_N⁻¹, attention's scores q·k / d;
- hidden weights start with a variance × m_N⁻¹, at a learning rate × m_N⁻¹ and with a decay × m_N;
- Adam's ε × m_N⁻¹ m_L⁻¹ in the blocks, × m_N⁻¹ outside of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from zoo.errors import ConfigError, SettingError
from zoo.extension import Layer, name_of
from zoo.model.attention import Attention, Joined
from zoo.model.block import Block
from zoo.model.language_model import Scaling
from zoo.model.positions import Positions
from zoo.slots import SLOTS
from zoo.state import State


def scaling(width: int, depth: int, base_width: int | None, base_depth: int | None) -> Scaling:
    """The multiples of a model of this size; both bases must be given."""
    if base_width is None or base_depth is None:
        raise SettingError(
            "model.parametrization",
            " = 'completep' scales from a model of known settings: bind model.base_width and model.base_depth",
        )
    return Scaling(width / base_width, depth / base_depth)


class ScaledAttention(Attention):
    """Attention whose scores are q·k / d, whatever mixes them: queries come × d^(−½) to what divides by √d."""

    def placed(self, joined: Joined, state: State | None) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().placed(joined, state)
        return q * self.head_dim**-0.5, k, v


class ScaledBlock(Block):
    """A block whose sublayers' outputs come × m_L⁻¹."""

    attention_class = ScaledAttention

    def __init__(
        self,
        layer: Layer,
        extensions: Mapping[str, Any],
        *,
        positions: Positions,
        qk_norm: bool,
        dropout: float,
        depth: float,
    ) -> None:
        """`depth` is m_L."""
        super().__init__(layer, extensions, positions=positions, qk_norm=qk_norm, dropout=dropout)
        self.factor = 1 / depth
        for part in map(self.extension, SLOTS):
            if "blocks" in part.reads:
                raise ConfigError(
                    f"{name_of(part)} runs lower layers again, by kernels that know no scale of their outputs: it does not go"
                    " with model.parametrization = 'completep'"
                )

    def dropped(self, branch: Tensor) -> Tensor:
        return super().dropped(branch) * self.factor
