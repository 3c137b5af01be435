"""What a training step costs beside the plain block's: time and memory, measured in turns; `costs.jsonl` of a store."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.errors import ZooError
from zoo.files import append_line, read_lines
from zoo.gin_values import changed
from zoo.stats import median_interval

if TYPE_CHECKING:
    from zoo.arms import Arm, Job

FILE = "costs.jsonl"
ROUNDS = 60


class Ratio(NamedTuple):
    """With its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cost:
    """One measurement."""

    arm: str
    plain: str  # the arm that it is a ratio to
    name: str
    match: str
    host: str
    rounds: list[tuple[float, float]]  # seconds of a step, this arm's and the plain one's
    memory: tuple[float, float] | None  # MB of a step beyond the weights, of both; unknown on some systems
    threads: int
    code: dict[str, str]  # of its methods
    settings: dict[str, str]  # every value, defaults too
    versions: dict[str, Any]
    measured: str  # when

    @property
    def time_ratio(self) -> Ratio:
        ratios = [own / plain for own, plain in self.rounds]
        return Ratio(statistics.median(ratios), *median_interval(ratios))

    @property
    def memory_ratio(self) -> float | None:
        return self.memory[0] / self.memory[1] if self.memory else None

    def __str__(self) -> str:
        time, memory = self.time_ratio, self.memory_ratio
        told = f"{self.name} ({self.match}, {self.host}): time × {time.value:.2f} ({time.low:.2f} … {time.high:.2f})"
        return told if memory is None else f"{told}, memory × {memory:.2f}"


def read(folder: Path) -> dict[str, Cost]:
    """The last measurement of every arm."""
    wanted = {entry.name for entry in fields(Cost)}
    rows = (row for row in read_lines(folder / FILE) if wanted <= row.keys())
    return {row["arm"]: Cost(**{name: row[name] for name in wanted}) for row in rows}


def merged(folders: Iterable[Path]) -> dict[str, Cost]:
    """… of several stores."""
    found: dict[str, Cost] = {}
    for folder in folders:
        for id, cost in read(folder).items():
            if id not in found or found[id].measured <= cost.measured:
                found[id] = cost
    return found


def missing(arms: Sequence[Arm], have: Mapping[str, Cost], again: bool = False) -> dict[str, list[Arm]]:
    """What to measure, by the plain arm to measure it against; `again`: also what has other code since."""
    by_id = {arm.id: arm for arm in arms}
    todo: dict[str, list[Arm]] = {}
    for method in arms:
        plain = method.baselines.get("none", "")
        if plain not in by_id:
            continue
        others = dict.fromkeys([*method.baselines.values(), method.id])
        for arm in (by_id[id] for id in others if id != plain and id in by_id):
            if not _known(have.get(arm.id), arm, plain, again) and arm not in todo.setdefault(plain, []):
                todo[plain].append(arm)
    return {plain: some for plain, some in todo.items() if some}


def _known(kept: Cost | None, arm: Arm, plain: str, again: bool) -> bool:
    if kept is None or kept.plain != plain or (again and kept.code != dict(arm.code)):
        return False
    return not changed(kept.settings, first(arm).settings)


def first(arm: Arm) -> Job:
    """The run whose step stands for all of the arm's."""
    from zoo.arms import Job

    return Job(arm, 1, 1.0)


def measure(
    arms: Sequence[Arm], folder: Path, threads: int, say: Callable[[str], None], again: bool = False
) -> list[str]:
    """Measure what the store does not have. What fails ends its arm alone; what it said is returned."""
    todo = missing(arms, read(folder), again)
    if not todo:
        return []
    say(f"time and memory of a step, beside the plain block's: {sum(map(len, todo.values()))} to measure")
    by_id, failures = {arm.id: arm for arm in arms}, []
    for id, others in todo.items():
        try:
            failures += _beside(by_id[id], others, folder, threads, say)
        except ZooError as error:
            failures.append(str(error))
    for failure in failures:
        say(failure.splitlines()[0])
    return failures


def _beside(plain: Arm, others: Sequence[Arm], folder: Path, threads: int, say: Callable[[str], None]) -> list[str]:
    from zoo.measure import Worker, in_turns, weigh
    from zoo.rehearsal import training
    from zoo.summary import now
    from zoo.versions import versions

    failures = []
    build = functools.partial(training, first(plain).text)
    least = weigh(plain.name, build, threads)
    with Worker(plain.name, build, threads=threads) as reference:
        for arm in others:
            job = first(arm)
            build = functools.partial(training, job.text)
            try:
                most = weigh(arm.name, build, threads)
                with Worker(arm.name, build, threads=threads) as worker:
                    rounds = [(round(own, 6), round(its, 6)) for own, its in in_turns(worker, reference, ROUNDS)]
            except ZooError as error:
                failures.append(str(error))
                continue
            memory = (most, least) if most == most and least == least else None
            cost = Cost(
                arm.id, plain.id, arm.name, arm.match, arm.host, rounds, memory, threads, dict(arm.code), job.settings,
                versions(), now(),
            )  # fmt: skip
            append_line(folder / FILE, asdict(cost))
            say(str(cost))
    return failures
