"""What came of a run on a task: a score per item, kept one line per outcome in `evaluations.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zoo.errors import ZooError
from zoo.system.clock import now
from zoo.system.files import append_line
from zoo.system.json_rows import Warn, check, records, warn

if TYPE_CHECKING:
    from zoo.evaluation.subject import Subject

FILE = "evaluations.jsonl"
Better = Literal["lower", "higher"]


class Measure(NamedTuple):
    """One figure of a task, with what each item adds to it: the sum of the values over that of the weights."""

    better: Better
    values: tuple[float, ...]
    weights: tuple[float, ...] | None = None  # None: one each

    @property
    def figure(self) -> float:
        return sum(self.values) / (sum(self.weights) if self.weights is not None else len(self.values))


@dataclass(frozen=True)
class Outcome:
    """A run on a task."""

    run: str  # its key, as a store has it
    name: str  # of the run's methods
    seed: int
    task: str
    kind: str
    identity: str  # of the task: its kind and every item
    step: int  # of the run's checkpoint
    measures: dict[str, Measure]
    notes: tuple[str, ...] = field(default=())  # a sentence each
    ended: str = ""  # when it was measured

    @property
    def figures(self) -> dict[str, float]:
        """Every figure by its name."""
        return {name: measure.figure for name, measure in self.measures.items()}

    @property
    def items(self) -> int:
        """How many items the task has."""
        return len(next(iter(self.measures.values())).values)


def outcome_of(
    run: Subject, task: str, kind: str, identity: str, measures: Mapping[str, Measure], notes: Sequence[str]
) -> Outcome:
    """What came of a run on a task; refused where the model answers with what is no number."""
    for measure in measures.values():
        if not all(map(math.isfinite, measure.values)):
            raise ZooError(
                f"the run in {run.folder} answers {task} with numbers that are not finite: its training diverged"
            )
    return Outcome(
        run=run.key,
        name=run.name,
        seed=run.seed,
        task=task,
        kind=kind,
        identity=identity,
        step=run.step,
        measures=dict(measures),
        notes=tuple(notes),
        ended=now(),
    )


@dataclass(frozen=True)
class _Row:
    """A line of the file, as it must be."""

    run: str
    name: str
    seed: int
    task: str
    kind: str
    identity: str
    step: int
    ended: str
    notes: list[str]
    measures: dict[str, dict[str, Any]]


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Add an outcome to those of a store, or of a run."""
    measures = {
        name: {
            "better": each.better,
            "figure": each.figure,
            "values": [_short(value) for value in each.values],
            "weights": None if each.weights is None else [_short(weight) for weight in each.weights],
        }
        for name, each in outcome.measures.items()
    }
    append_line(folder / FILE, {**asdict(outcome), "notes": list(outcome.notes), "measures": measures})


def _short(value: float) -> float:
    """A score in as many digits as anyone compares."""
    return int(value) if value == int(value) else float(f"{value:.7g}")


def read_outcomes(folders: Iterable[Path], warn: Warn = warn) -> tuple[Outcome, ...]:
    """The outcomes that these folders hold; of a run on the same task twice, the last."""
    newest: dict[tuple[str, str], Outcome] = {}
    for folder in folders:
        for outcome in records(folder / FILE, "outcome", _outcome, warn):
            newest[outcome.run, outcome.identity] = outcome
    return tuple(newest.values())


def _outcome(row: dict[str, Any]) -> Outcome:
    check(row, _Row)
    fields = {name: row[name] for name in ("run", "name", "seed", "task", "kind", "identity", "step", "ended")}
    measures = {name: _measure(name, each) for name, each in row["measures"].items()}
    if not measures or len({len(each.values) for each in measures.values()}) != 1:
        raise ValueError("its measures are not of the same items")
    return Outcome(**fields, notes=tuple(row["notes"]), measures=measures)


def _measure(name: str, row: Mapping[str, Any]) -> Measure:
    values, weights = row["values"], row["weights"]
    numbers = [*values, *(weights or [])]
    if not values or not all(type(each) in (int, float) and abs(each) < 1e300 for each in numbers):
        raise ValueError(f"{name} has a value that is no number")
    if weights is not None and (len(weights) != len(values) or min(weights) < 0 or sum(weights) <= 0):
        raise ValueError(f"{name} has other weights than values")
    if row["better"] not in ("lower", "higher"):
        raise ValueError(f"{name} is better neither lower nor higher")
    return Measure(row["better"], tuple(values), None if weights is None else tuple(weights))
