"""The fixed batch over which activations are watched, and what was last seen of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Watch:
    """The fixed batch, and what was last seen."""

    tokens: Tensor | None = None
    step: int = -1
    seen: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    silent: bool = False  # no extension shows anything
