"""Names of parameters as people read them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


def readable(name: str) -> str:
    """`layers.2.ffn.down` → `layer 3 ffn.down`: layers count from 1 wherever people read them."""
    return re.sub(r"^layers\.(\d+)\.", lambda match: f"layer {int(match[1]) + 1} ", name)
