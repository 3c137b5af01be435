"""What training a model takes, and in what a baseline can be matched: figures alone, which a report reads without torch."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["none", "parameters", "flops", "tokens", "time"]  # of match


class Spent(NamedTuple):
    """What training a model takes, and what a baseline is matched in."""

    parameters: int  # those that learn
    flops: float  # per token
    trained: int  # steps or tokens

    def off_by(self, method: Spent, kind: str) -> float:
        """The relative difference of this baseline from the method that it was matched to."""
        ratios = {
            "parameters": self.parameters / method.parameters,
            "flops": self.flops / method.flops,
            "tokens": self.flops * self.trained / (method.flops * method.trained),
        }
        return ratios.get(kind, 1.0) - 1
