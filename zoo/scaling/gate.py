"""The first gate of a ladder: what the planned looks at its smallest rungs say of a method."""

from __future__ import annotations

from typing import NamedTuple

from zoo.scaling.multiplier import Overall
from zoo.statistics.looks import FUTILE, Levels, conditional_power, levels_at, look_at, normal_score, planned_looks

HELPS = "it helps at the smallest rungs"
HURTS = "it hurts at the smallest rungs"
HOPELESS = "more seeds would hardly show anything"


class Gate(NamedTuple):
    """A method at the rungs where looks are taken."""

    looks: tuple[int, ...]  # the planned numbers of seeds
    seeds: int  # that it has at each of these rungs, at least
    compute: Overall | None  # κ over these rungs alone
    passed: bool  # whether it was run at a rung above

    @property
    def levels(self) -> Levels:
        """The levels of its verdict: those of the look that its seeds have come to; of the last look above the gate."""
        return levels_at(self.looks[-1] if self.passed else self.seeds, self.looks)

    def reason(self) -> str:
        """Why it needs no further seed at these rungs: it helps or hurts beyond the look's bound, or is hopeless; else "".

        ln κ over its error is a t: its p is compared with the level of the bound, as few degrees of freedom tell little.
        """
        if self.compute is None:
            return ""
        planned = planned_looks(self.looks)
        look, log = look_at(self.seeds, planned), self.compute.log
        if log.p < look.level:
            return HELPS if log.value > 0 else HURTS
        power = conditional_power(normal_score(log.p), look.information, planned[-1].bound)
        return HOPELESS if power < FUTILE else ""
