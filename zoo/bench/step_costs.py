"""Time and memory of an arm's training step compared with the plain block's, and the file that keeps them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from zoo.bench.time_stamps import believable
from zoo.statistics.spread import median_interval
from zoo.system.json_rows import Warn, check, records, warn

FILE = "costs.jsonl"


class Ratio(NamedTuple):
    """A ratio with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """One measurement of an arm's training step, in turns with the plain block's."""

    arm: str
    plain: str  # the arm that it is a ratio to
    name: str
    match: str
    host: str
    rounds: list[tuple[float, float]]  # seconds of a step, this arm's and the plain one's
    memory: tuple[float, float] | None  # MB of a step beyond the weights, of both; unknown on some systems
    threads: int
    code: dict[str, str]  # method → the hash of its source
    settings: dict[str, str]  # every value, defaults too
    versions: dict[str, Any]
    measured: str  # the time of day

    @property
    def time_ratio(self) -> Ratio:
        ratios = [own / plain for own, plain in self.rounds]
        return Ratio(statistics.median(ratios), *median_interval(ratios))

    @property
    def memory_ratio(self) -> float | None:
        return self.memory[0] / self.memory[1] if self.memory else None

    def __str__(self) -> str:
        time, memory = self.time_ratio, self.memory_ratio
        text = f"{self.name} ({self.match}, {self.host}): time × {time.value:.2f} ({time.low:.2f} … {time.high:.2f})"
        return text if memory is None else f"{text}, memory × {memory:.2f}"


def read_costs(folder: Path, warn: Warn = warn) -> dict[str, StepCost]:
    """The last measurement of every arm, in the order of their lines."""
    costs: dict[str, StepCost] = {}
    for cost in records(folder / FILE, "step cost", _step_cost, warn):
        costs.pop(cost.arm, None)  # so that it stands last
        costs[cost.arm] = cost
    return costs


def _step_cost(row: dict[str, Any]) -> StepCost | None:
    names = {entry.name for entry in fields(StepCost)}
    if not names <= row.keys():
        return None
    check(row, StepCost)
    numbers = [number for pair in (*row["rounds"], row["memory"] or (1, 1)) for number in pair]
    if not row["rounds"] or not all(0 < number < math.inf for number in numbers):
        raise ValueError("rounds and memory are not positive numbers")
    return StepCost(**{name: row[name] for name in names})


def merge_costs(folders: Iterable[Path]) -> dict[str, StepCost]:
    """The newest measurement of every arm, over several stores."""
    newest: dict[str, tuple[str, StepCost]] = {}
    for folder in folders:
        costs = read_costs(folder)
        for when, (id, cost) in zip(believable([cost.measured for cost in costs.values()]), costs.items(), strict=True):
            if id not in newest or newest[id][0] <= when:
                newest[id] = (when, cost)
    return {id: cost for id, (_, cost) in newest.items()}
