"""The slots of a block: the places where a method may stand, each an entry-point group `zoo.SLOT`.

Their names stand here and nowhere else; the base class of each is in `zoo.extension`.
"""

from __future__ import annotations

__all__ = ["SLOTS"]

TITLES = {  # what a method in the slot decides
    "residual": "how sublayers read from and write to the stream",
    "score_mixing": "what attention attends with",
    "temporal_mixing": "how a token is mixed with its predecessors",
    "head_mixing": "the projected heads, and what they answer",
}
SLOTS = tuple(TITLES)
GROUPS = {f"zoo.{slot}": slot for slot in SLOTS}
