"""The table of what methods cost compared with the plain block of their host."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence

from zoo.bench.step_costs import Ratio
from zoo.report.arm_results import ArmResults
from zoo.report.cell_texts import number_text
from zoo.report.verdicts import Comparison
from zoo.system.table import Table

SPEEDS = ("steps/s", "samples/s", "evaluation time ×", "decoding time ×", "decoded tokens/s", "state bytes per token")


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
        speeds = _speeds(c.method, c.plain)
        rows.append((c.name, ours.host, f"{extra:+,}", f"{ours.flops / theirs.flops:.3f}", *time_and_memory, *speeds))
    head = ("method", "host", "parameters", "training FLOPs ×", "time ×", "95 %", "memory ×", *SPEEDS)
    return Table("Cost compared with the plain block", head, tuple(rows))


def _measured(arm: ArmResults, plain: ArmResults) -> tuple[str, str, str] | None:
    """Time, its interval and memory, where they were measured in turns with the plain model's."""
    if arm.cost is None or arm.cost.plain != plain.id:
        return None
    time, memory = arm.cost.time_ratio, arm.cost.memory_ratio
    return f"{time.value:.2f}", f"{time.low:.2f} … {time.high:.2f}", "–" if memory is None else f"{memory:.2f}"


def _speeds(arm: ArmResults, plain: ArmResults) -> tuple[str, ...]:
    """The columns of SPEEDS; a dash for what was not measured."""
    cost = arm.cost if arm.cost and arm.cost.plain == plain.id else None
    if cost is None:
        return ("–",) * len(SPEEDS)
    return (
        _rate(cost.steps_per_second),
        _rate(cost.samples_per_second),
        _with_interval(cost.evaluation_ratio, ".2f"),
        _with_interval(cost.decoding_ratio, ".2f"),
        _rate(cost.decoded_per_second),
        f"{cost.state[0]:,.0f} / {cost.state[1]:,.0f}" if cost.state else "–",
    )


def _rate(rate: Ratio | None) -> str:
    """So many per second, to three digits, with the interval."""
    if rate is None:
        return "–"
    value, low, high = (f"{float(f'{each:.3g}'):,.10g}" for each in rate)
    return f"{value} ({low} … {high})"


def _with_interval(ratio: Ratio | None, form: str) -> str:
    return f"{ratio.value:{form}} ({ratio.low:{form}} … {ratio.high:{form}})" if ratio else "–"


def _estimated(arm: ArmResults, plain: ArmResults, plain_speed: float) -> tuple[str, str, str]:
    """Time, no interval, and memory, after “≈”: estimates from the runs, which were not measured in turns."""
    time, memory = _ratio(plain_speed, arm.own_speed), _ratio(_process_memory(arm), _process_memory(plain))
    return f"≈ {number_text(time, '.2f')}", "–", f"≈ {number_text(memory, '.2f')}"


def _ratio(one: float, other: float) -> float:
    return one / other if other else math.nan


def _process_memory(arm: ArmResults) -> float:
    return statistics.fmean(run.peak_memory for run in arm.runs)
