"""The store of a bench: one line per run in `results.jsonl`, only ever appended to."""

from __future__ import annotations

import contextlib
import marshal
import math
import statistics
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from zoo.bench.time_stamps import believable
from zoo.counting.spent import Kind
from zoo.errors import ZooError
from zoo.system.files import append_line
from zoo.system.json_rows import GrowingFile, Point, Warn, check, packed, records, warn
from zoo.system.lock import open_lock, try_lock
from zoo.system.memory import collection_paused

FILE = "results.jsonl"
KINDS = dict.fromkeys(get_args(Kind))  # of match
LOCK = "bench.lock"
TUNING_SEED = 0  # learning rates are chosen on it, and nothing is judged by it; the seeds that count are 1, 2, …
FURTHER_TUNING = 10_000  # seeds above it are tuning seeds too: those on which rates that tie are tried again
OWN = ("train.seed", "train.lr")  # settings that tell the runs of one arm apart; the rate only by its factor


class RunSettings(ChainMap[str, str]):
    """The settings of a run: those of its own, before those that runs of a store share. Looked up a million times."""

    def get(self, key: str, default: Any = None) -> Any:
        own, shared = self.maps
        return own[key] if key in own else shared.get(key, default)


@dataclass(frozen=True, slots=True)
class Result:
    """One run, with everything needed to run it again."""

    key: str  # the configuration's hash
    arm: str  # the configuration's hash without the seed and the factor of the learning rate
    name: str  # method or combination; "baseline" without one
    match: str  # "method", or how the baseline was matched
    host: str
    seed: int
    lr: float
    lr_factor: float
    status: str
    causal: bool
    parameters: int
    flops: float  # per token, forward and backward
    steps: int
    tokens: int
    valid_loss: float | None
    test_loss: float | None
    tested: bool  # whether it has been on the test split, if the corpus has one
    bits_per_byte: float | None
    accuracy: float | None
    tokens_per_second: float  # the median over the run, as other work on the machine comes and goes
    peak_memory: int
    seconds: float
    blew_up: str
    alarm: str
    curve: Sequence[Point]  # of validation
    training: Sequence[Point]  # of the batches since the point before
    probes: dict[str, Any]
    baselines: dict[str, str]  # of a method: how matched → the arm
    unigram_entropy: float
    corpus: str
    config: str
    settings: Mapping[str, str]  # every value, defaults too
    versions: dict[str, Any]
    stamps: dict[str, Any]
    budgets: list[dict[str, float | None]] = field(default_factory=list)  # as in a run's summary

    @property
    def budget(self) -> int:
        """The tokens that the run was to be trained on; one that diverges ends before."""
        text = self.settings.get("train.steps", "")
        steps = int(text) if text.isdecimal() and len(text) < 19 else self.steps
        return round(self.tokens / self.steps * steps) if self.steps else self.tokens

    @property
    def loss(self) -> float:
        """The loss that arms are compared by: on the test split, or on the validation split where there is no other."""
        value = self.valid_loss if self.test_loss is None else self.test_loss
        return math.nan if value is None else value


class Store:
    """A folder with results and the runs they came from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = ResultFile(folder / FILE)

    def read(self) -> dict[str, Result]:
        """Every run by its key, the one that was written last at the end; a line that is no result is passed over."""
        return self._file.read()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """One bench at a time: two would train the same baselines and write over each other's report.

        Of a bench that was refused before it wrote anything, no folder is left that was not there before.
        """
        made = [each for each in (self.folder, *self.folder.parents) if not each.exists()]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ZooError(f"--store {self.folder} cannot be a folder: {error.strerror}; name another one") from error
        with open_lock(self.folder / LOCK) as lock:
            if not try_lock(lock):
                raise ZooError(
                    f"another zoo-bench is working in {self.folder}: wait for it, or name another folder with --store"
                )
            try:
                yield
            finally:
                self._leave(made)

    def _leave(self, made: Sequence[Path]) -> None:
        with contextlib.suppress(OSError):  # what is not empty stays
            if [path.name for path in self.folder.iterdir()] == [LOCK]:
                (self.folder / LOCK).unlink()
                for folder in made:
                    folder.rmdir()

    def append(self, result: Result) -> None:
        """Add a line for a run, or a newer one."""
        row = {entry.name: getattr(result, entry.name) for entry in fields(Result)}
        points = {"curve": list(result.curve), "training": list(result.training)}
        append_line(self.folder / FILE, row | points | {"settings": dict(result.settings)})


class ResultFile:
    """A file of results: a bench asks for them after every few runs, and has each line read once.

    `brief` leaves out what only running it again needs.
    """

    def __init__(self, file: Path, warn: Warn = warn, brief: bool = False) -> None:
        self._lines, self._warn, self._convert = GrowingFile(file), warn, _reader(brief)
        self._results: dict[str, Result] = {}

    def read(self) -> dict[str, Result]:
        """Every run by its key, as its last line has it, in the order in which they ended: that of the lines, not of clocks."""
        if self._lines.is_other():
            self._results = {}
        results = self._results
        with collection_paused():
            for result in records(self._lines, "result", self._convert, self._warn):
                if not _same_run(results.get(result.key), result):
                    results.pop(result.key, None)  # so that it stands last
                results[result.key] = result
        return dict(results)


def read_results(file: Path, warn: Warn = warn, brief: bool = False) -> dict[str, Result]:
    """The results of a file, as `ResultFile` has them."""
    return ResultFile(file, warn, brief).read()


def _same_run(one: Result | None, other: Result) -> bool:
    """Whether the second is the first, with its test split's loss for example, rather than run again."""
    return one is not None and bool(one.stamps.get("ended")) and one.stamps.get("ended") == other.stamps.get("ended")


def _reader(brief: bool) -> Callable[[dict[str, Any]], Result | None]:
    """The function from a line to a result; what many lines have in common is in memory once."""
    names = [entry.name for entry in fields(Result)]
    required = set(names)
    shared: dict[Any, Any] = {}

    def once(value: Any) -> Any:
        # Version 2 has no references, so that the same value gives the same bytes; JSON would take three times as long.
        return shared.setdefault(marshal.dumps(value, 2), value)

    def convert(row: dict[str, Any]) -> Result | None:
        row.setdefault("settings", {})  # older lines have none
        row.setdefault("budgets", [])
        row.setdefault("tested", row.get("test_loss") is not None)
        if not row.keys() >= required:
            return None
        for name in ("curve", "training"):
            row[name] = packed(row[name])
        check(row, Result)
        _check_meaning(row)
        settings = row["settings"]
        own = {key: settings.pop(key) for key in OWN if key in settings}
        common = once(settings)
        row["settings"] = shared.setdefault((id(common), *own.items()), RunSettings(own, common))
        for name in ("versions", "baselines", "probes"):
            row[name] = once(row[name])
        if brief:
            row["config"], row["stamps"] = "", {"ended": row["stamps"].get("ended", "")}
        for name in ("arm", "name", "match", "host", "status", "corpus", "blew_up", "alarm"):
            row[name] = sys.intern(row[name])
        return Result(*[row[name] for name in names])

    return convert


def _check_meaning(row: Mapping[str, Any]) -> None:
    """ValueError for what has the right types and cannot be true: a report divides by it, or looks it up."""
    if not isinstance(row["stamps"].get("ended", ""), str):
        raise ValueError("stamps: ended is not a time")
    if row["match"] not in (*KINDS, "method") or not row["baselines"].keys() <= KINDS.keys():
        raise ValueError(f"matches are {', '.join(KINDS)}")
    for name in ("parameters", "flops", "lr", "lr_factor"):
        if not row[name] > 0:
            raise ValueError(f"{name} is not positive")
    for layers in row["probes"].values():
        if not isinstance(layers, dict) or not all(layer.isdecimal() for layer in layers):
            raise ValueError("probes are not by layer")
        for value in layers.values():
            for each in value if isinstance(value, list) else [value]:
                if each is not None and type(each) not in (int, float):
                    raise ValueError("a probe is no number")


def store_folder(store: Path) -> Path:
    """The folder of a store, which was named itself or by its file of results."""
    return store if store.is_dir() else store.parent


def merged(folders: Iterable[Path]) -> list[Result]:
    """The results of several stores, the newest last; of a run that several stores have, the last one."""
    dated: list[tuple[str, int, int, Result]] = []
    for number, folder in enumerate(folders):
        file = folder / FILE if folder.is_dir() else folder
        if not file.exists():
            raise ZooError(f"{folder} has no {FILE}: name the folder of a bench")
        results = list(read_results(file, brief=True).values())
        ended = believable([result.stamps.get("ended", "") for result in results])
        dated += [(when, number, i, result) for i, (when, result) in enumerate(zip(ended, results, strict=True))]
    newest_of: dict[str, Result] = {}
    for *_, result in sorted(dated, key=lambda each: each[:3]):
        earlier = newest_of.pop(result.key, None)
        if earlier is not None and _same_run(earlier, result) and earlier.tested:
            result = earlier  # a copy, which may be from before its test
        newest_of[result.key] = result
    if not newest_of:
        raise ZooError("there is no result yet: run zoo-bench first")
    return list(newest_of.values())


def by_arm(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Results by the arm that they are of."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.arm, []).append(result)
    return groups


def newest(results: Sequence[Result]) -> Result:
    """The result that was written last."""
    return results[-1]


def is_tuning(seed: int) -> bool:
    """Whether the runs of a seed choose learning rates; they are not judged."""
    return seed == TUNING_SEED or seed > FURTHER_TUNING


def tuning_losses(results: Iterable[Result]) -> dict[float, list[float]]:
    """The validation losses at every learning rate of an arm on its tuning seeds; infinite where there is none.

    Where no tuning seed was run, as in older stores, those on its first seed.
    """
    runs = sorted(results, key=lambda run: (run.lr_factor, run.seed))
    first = min((run.seed for run in runs), default=TUNING_SEED)
    losses: dict[float, list[float]] = {}
    for run in runs:
        if run.seed == first or (first == TUNING_SEED and is_tuning(run.seed)):
            losses.setdefault(run.lr_factor, []).append(_loss(run))
    return losses


def _loss(run: Result) -> float:
    loss = run.valid_loss
    return loss if loss is not None and math.isfinite(loss) and run.status != "diverged" else math.inf


def best_factor(results: Iterable[Result]) -> float | None:
    """The learning rate that an arm uses: that of the lowest mean validation loss over its tuning seeds.

    Of several, as where all of them diverged, the smallest.
    """
    means = {factor: statistics.fmean(losses) for factor, losses in tuning_losses(results).items()}
    return min(means, key=lambda factor: (means[factor], factor), default=None)
