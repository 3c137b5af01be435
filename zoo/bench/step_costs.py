"""What an arm's training, evaluation and decoding cost compared with the plain block's, and the file that keeps it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
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

    @property
    def inverse(self) -> Ratio:
        """The other way round: of times, that of speeds."""
        return Ratio(1 / self.value, 1 / self.high, 1 / self.low)


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
    evaluation: list[tuple[float, float]] = field(default_factory=list)  # seconds of evaluating a batch, of both
    decoding: list[tuple[float, float]] = field(default_factory=list)  # seconds of decoding a token, of both
    state: tuple[float, float] | None = None  # bytes of state per token, of both; None: cannot be decoded with a state

    @property
    def time_ratio(self) -> Ratio:
        return _ratio(self.rounds)

    @property
    def evaluation_ratio(self) -> Ratio | None:
        """The time of an evaluation; None in older measurements."""
        return _ratio(self.evaluation) if self.evaluation else None

    @property
    def decoding_ratio(self) -> Ratio | None:
        """The time of decoding a token; None where that was not measured, or cannot be done."""
        return _ratio(self.decoding) if self.decoding else None

    @property
    def steps_per_second(self) -> Ratio:
        """Training steps per second."""
        return _rate([own for own, _ in self.rounds])

    @property
    def samples_per_second(self) -> Ratio | None:
        """Rows of training per second; None where the size of a step is not known."""
        texts = [self.settings.get(name, "1") for name in ("data.batch_size", "train.accumulate")]
        if "data.batch_size" not in self.settings or not all(text.isdecimal() and len(text) < 10 for text in texts):
            return None
        rows = int(texts[0]) * int(texts[1])
        return Ratio(*(rows * each for each in self.steps_per_second))

    @property
    def decoded_per_second(self) -> Ratio | None:
        """Tokens per second that one row decodes."""
        return _rate([own for own, _ in self.decoding]) if self.decoding else None

    @property
    def memory_ratio(self) -> float | None:
        return self.memory[0] / self.memory[1] if self.memory else None

    def __str__(self) -> str:
        time, memory = self.time_ratio, self.memory_ratio
        text = f"{self.name} ({self.match}, {self.host}): time × {time.value:.2f} ({time.low:.2f} … {time.high:.2f})"
        text += "" if memory is None else f", memory × {memory:.2f}"
        for name, ratio in (("evaluation", self.evaluation_ratio), ("decoding", self.decoding_ratio)):
            text += f", {name} × {ratio.value:.2f}" if ratio else ""
        return text


def _ratio(rounds: Sequence[tuple[float, float]]) -> Ratio:
    """The median of the ratios within a round."""
    ratios = [own / plain for own, plain in rounds]
    return Ratio(statistics.median(ratios), *median_interval(ratios))


def _rate(seconds: Sequence[float]) -> Ratio:
    """So many per second, by the median."""
    low, high = median_interval(seconds)
    return Ratio(1 / statistics.median(seconds), 1 / high, 1 / low)


def read_costs(folder: Path, warn: Warn = warn) -> dict[str, StepCost]:
    """The last measurement of every arm, in the order of their lines."""
    costs: dict[str, StepCost] = {}
    for cost in records(folder / FILE, "step cost", _step_cost, warn):
        costs.pop(cost.arm, None)  # so that it stands last
        costs[cost.arm] = cost
    return costs


def _step_cost(row: dict[str, Any]) -> StepCost | None:
    names = {entry.name for entry in fields(StepCost)}
    row = {"evaluation": [], "decoding": [], "state": None} | row  # older lines have none
    if not names <= row.keys():
        return None
    check(row, StepCost)
    pairs = (*row["rounds"], *row["evaluation"], *row["decoding"], row["memory"] or (1, 1), row["state"] or (1, 1))
    numbers = [number for pair in pairs for number in pair]
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
