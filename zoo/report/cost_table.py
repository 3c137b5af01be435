"""The table of what methods cost compared with the plain block of their host."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence

from zoo.report.arm_results import ArmResults
from zoo.report.cell_texts import number_text
from zoo.report.verdicts import Comparison
from zoo.system.table import Table


def cost_table(comparisons: Sequence[Comparison]) -> Table:
    """What every method costs compared with the plain block of its host."""
    rows = []
    plain_arms = {c.plain.id: c.plain for c in comparisons if c.plain}
    plain_speed = functools.cache(lambda id: plain_arms[id].own_speed)
    for c in {c.method.id: c for c in comparisons if c.plain}.values():
        assert c.plain is not None
        ours, theirs = c.method.first, c.plain.first
        extra = ours.parameters - theirs.parameters
        time_and_memory = _measured(c.method, c.plain) or _estimated(c.method, c.plain, plain_speed(c.plain.id))
        rows.append((c.name, ours.host, f"{extra:+,}", f"{ours.flops / theirs.flops:.3f}", *time_and_memory))
    head = ("method", "host", "parameters", "training FLOPs ×", "time ×", "95 %", "memory ×")
    return Table("Cost compared with the plain block", head, tuple(rows))


def _measured(arm: ArmResults, plain: ArmResults) -> tuple[str, str, str] | None:
    """Time, its interval and memory, where they were measured in turns with the plain model's."""
    if arm.cost is None or arm.cost.plain != plain.id:
        return None
    time, memory = arm.cost.time_ratio, arm.cost.memory_ratio
    return f"{time.value:.2f}", f"{time.low:.2f} … {time.high:.2f}", "–" if memory is None else f"{memory:.2f}"


def _estimated(arm: ArmResults, plain: ArmResults, plain_speed: float) -> tuple[str, str, str]:
    """Time, no interval, and memory, after “≈”: estimates from the runs, which were not measured in turns."""
    time, memory = _ratio(plain_speed, arm.own_speed), _ratio(_process_memory(arm), _process_memory(plain))
    return f"≈ {number_text(time, '.2f')}", "–", f"≈ {number_text(memory, '.2f')}"


def _ratio(one: float, other: float) -> float:
    return one / other if other else math.nan


def _process_memory(arm: ArmResults) -> float:
    return statistics.fmean(run.peak_memory for run in arm.runs)
