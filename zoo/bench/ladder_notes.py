"""What a store knows of its ladders: the arms of every rung, and the predictions that were made before a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from zoo.system.files import append_line
from zoo.system.json_rows import Warn, check, records, warn

ARMS = "ladders.jsonl"
PREDICTIONS = "predictions.jsonl"
PLAIN = ("plain", "other seeds", "more tokens", "budget")  # roles of arms that are the plain block, all at one rate
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class LadderArm:
    """An arm at one rung of a ladder."""

    ladder: str  # the key of the ladder: its name, host, and a hash of what its rungs have in common
    name: str
    host: str
    margin: float
    depth: int
    parameters: int  # N, without embeddings
    tokens: int  # D of the plain block
    label: str
    role: str
    arm: str
    factor: float  # of the learning rate
    seeds: list[int]
    charged: float  # FLOPs
    looks: list[int] = field(default_factory=list)  # the planned numbers of seeds; empty where no look is taken
    # of the plain block: factors that tie with its own, at which it is run too
    ties: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The loss of an arm at a rung, predicted from smaller rungs before it was run."""

    ladder: str
    depth: int
    label: str
    arm: str
    loss: float
    low: float  # 95 % interval of the mean loss
    high: float
    seeds: int  # that the mean is over
    runs: int  # that it was predicted from
    registered: str  # the time of day


def note_arms(folder: Path, arms: Iterable[LadderArm], runs: Collection[tuple[str, int, float]] | None = None) -> None:
    """Note the arms of a rung, but for those that are noted as they are.

    What an earlier bench did is kept: the looks it took, and the seeds it ran of the same arm at the same rate. A report compares
    whole arms: where `runs` says which runs there are, by arm, seed and factor of the rate, an arm whose rate or definition has
    changed keeps its note until all its new runs are there. Arms of the plain block, which share a rate, change together.
    """
    known, arms = read_ladder_arms([folder]), list(arms)
    waiting = {
        arm.label
        for arm in arms
        if runs is not None and not all((arm.arm, seed, arm.factor) in runs for seed in arm.seeds)
    }
    if any(arm.label in waiting for arm in arms if arm.role in PLAIN):
        waiting |= {arm.label for arm in arms if arm.role in PLAIN}
    for arm in arms:
        before = known.get((arm.ladder, arm.depth, arm.label))
        same = before is None or (before.arm, before.factor) == (arm.arm, arm.factor)
        if not same and arm.label in waiting:
            continue
        if before and before.role == arm.role and not arm.looks:
            arm = replace(arm, looks=before.looks)
        if before and same:
            arm = replace(arm, seeds=sorted({*before.seeds, *arm.seeds}))
        if before != arm:
            append_line(folder / ARMS, asdict(arm))


def read_ladder_arms(folders: Iterable[Path], warn: Warn = warn) -> dict[tuple[str, int, str], LadderArm]:
    """The last note of every arm, by ladder, depth and label."""
    arms: dict[tuple[str, int, str], LadderArm] = {}
    for folder in folders:
        for arm in records(folder / ARMS, "arm of a ladder", _reader(LadderArm), warn):
            arms[arm.ladder, arm.depth, arm.label] = arm
    return arms


def register(folder: Path, prediction: Prediction) -> None:
    """Write a prediction down, with the time; what is registered is never changed."""
    append_line(folder / PREDICTIONS, asdict(prediction))


def read_predictions(folders: Iterable[Path], warn: Warn = warn) -> dict[tuple[str, str], Prediction]:
    """The first prediction of every arm, by ladder and arm."""
    predictions: dict[tuple[str, str], Prediction] = {}
    for folder in folders:
        for each in records(folder / PREDICTIONS, "prediction", _reader(Prediction), warn):
            predictions.setdefault((each.ladder, each.arm), each)
    return predictions


def are_looks(value: Any) -> bool:
    """Whether these are growing numbers of seeds, as few as a plan has."""
    return (
        isinstance(value, list)
        and all(type(each) is int and 0 < each < 10_000 for each in value)
        and value == sorted(set(value))
        and len(value) <= 10
    )


def _reader(kind: type[T]) -> Callable[[dict[str, Any]], T | None]:
    """The function from a line to a record; a line of another format is none."""
    names = {entry.name for entry in fields(kind)}  # type: ignore[arg-type]
    always = {entry.name for entry in fields(kind) if entry.default_factory is MISSING}  # type: ignore[arg-type]

    def convert(row: dict[str, Any]) -> T | None:
        if not always <= row.keys():
            return None
        check(row, kind)
        for name in ("margin", "factor", "charged", "depth", "parameters", "tokens"):
            if name in row and name in names and not row[name] > 0:
                raise ValueError(f"{name} is not positive")
        if not are_looks(row.get("looks", [])):
            raise ValueError("looks are not growing numbers of seeds")
        if not all(isinstance(factor, float) and factor > 0 for factor in row.get("ties", [])):
            raise ValueError("ties are not factors of a learning rate")
        return kind(**{name: row[name] for name in names & row.keys()})

    return convert
