"""The store of a bench: one line a run in `results.jsonl`, only ever appended to."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from zoo import costs
from zoo.costs import Cost
from zoo.errors import ZooError
from zoo.files import append_line, read_lines, write_atomically

FILE = "results.jsonl"
SUITES = "suites.json"
LOCK = "bench.lock"
Point = tuple[int, int, float, float]  # step, tokens, seconds of training, loss


@dataclass(frozen=True)
class Result:
    """One run, with everything needed to run it again."""

    key: str  # the configuration's hash
    arm: str  # … without the seed, and before the learning rate's factor
    name: str  # method or combination; "baseline" without one
    match: str  # "method", or how the baseline was matched
    host: str
    seed: int
    lr: float
    lr_factor: float
    status: str
    causal: bool
    parameters: int
    flops: float  # of a token
    steps: int
    tokens: int
    valid_loss: float | None
    test_loss: float | None
    tested: bool  # whether it has been on the test split, should the corpus have one
    bits_per_byte: float | None
    accuracy: float | None
    tokens_per_second: float  # the median over the run: other work on the machine comes and goes
    peak_memory: int
    seconds: float
    blew_up: str
    alarm: str
    curve: list[Point]  # of validation
    training: list[Point]  # of the batches since the point before
    probes: dict[str, Any]
    baselines: dict[str, str]  # of a method: how matched → the arm
    unigram_entropy: float
    corpus: str
    config: str
    settings: dict[str, str]  # every value, defaults too
    versions: dict[str, Any]
    stamps: dict[str, Any]

    @property
    def budget(self) -> int:
        """The tokens that it was to be trained on; a run that diverges ends before."""
        steps = int(self.settings.get("train.steps", self.steps))
        return round(self.tokens / self.steps * steps) if self.steps else self.tokens

    @property
    def loss(self) -> float:
        """What arms are compared by: the test split's loss, the validation split's where there is no test split."""
        value = self.valid_loss if self.test_loss is None else self.test_loss
        return math.nan if value is None else value


class Store:
    """A folder with results and the runs they came from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> dict[str, Result]:
        """Every run by its key; a later line of the same run replaces an earlier one, a torn last line is passed over."""
        return read_results(self.folder / FILE)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """One bench at a time: two would train the same baselines and write over each other's report."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ZooError(
                    f"another zoo-bench is working in {self.folder}: wait for it, or name another folder with --store"
                ) from error
            yield

    def append(self, result: Result) -> None:
        append_line(self.folder / FILE, asdict(result))


def read_results(file: Path) -> dict[str, Result]:
    wanted = {entry.name for entry in fields(Result)}
    found: dict[str, Result] = {}
    for row in read_lines(file):
        row.setdefault("settings", {})  # lines from before these were kept
        row.setdefault("tested", row.get("test_loss") is not None)
        if wanted <= row.keys():
            result = Result(**{name: row[name] for name in wanted})
            found.pop(result.key, None)  # so that the newest line stands last
            found[result.key] = result
    return found


class Known(NamedTuple):
    """What a report needs to know beyond the results."""

    suites: Mapping[str, str]  # a method's arm → the suite that it was judged in
    baselines: Mapping[str, Mapping[str, str]]  # … → how matched → the baseline's arm, all that were ever asked for
    twins: tuple[tuple[str, str], ...]  # methods that are the same function
    costs: Mapping[str, Cost] = MappingProxyType({})  # by arm


NOTHING_KNOWN = Known({}, {}, ())


def remember(
    folder: Path, suite: str, methods: Mapping[str, Mapping[str, str]], twins: Iterable[tuple[str, str]]
) -> None:
    """Note what a bench judges together: arms and their baselines. "" is for what was named one by one."""
    folder.mkdir(parents=True, exist_ok=True)
    noted = _noted(folder)
    entry = noted.get(suite, {"arms": {}, "twins": []})
    arms = entry["arms"] | {id: {**entry["arms"].get(id, {}), **baselines} for id, baselines in methods.items()}
    same = {tuple(pair) for pair in entry["twins"]} | set(twins)
    noted[suite] = {"arms": arms, "twins": sorted(same)}
    write_atomically(folder / SUITES, json.dumps(noted, indent=1, sort_keys=True) + "\n")


def known(folders: Sequence[Path]) -> Known:
    """What the benches of these stores noted; an arm that several suites name belongs to the first by name."""
    suites: dict[str, str] = {}
    baselines: dict[str, dict[str, str]] = {}
    twins: set[tuple[str, str]] = set()
    for folder in folders:
        noted = _noted(place(folder))
        for name in sorted(noted, reverse=True):  # the last word is the first name's, and never that of ""
            arms = noted[name]["arms"]
            suites |= {id: name or suites.get(id, "") for id in arms}
            for id, matched in arms.items():
                baselines.setdefault(id, {}).update(matched)
            twins |= {(one, other) for one, other in noted[name]["twins"]}
    return Known(suites, baselines, tuple(sorted(twins)), costs.merged(map(place, folders)))


def place(store: Path) -> Path:
    """The folder of a store that was named by it, or by its file of results."""
    return store if store.is_dir() else store.parent


def _noted(folder: Path) -> dict[str, Any]:
    file = folder / SUITES
    if not file.exists():
        return {}
    try:
        noted = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        noted = None
    whole = isinstance(noted, dict) and all(
        isinstance(entry, dict) and {"arms", "twins"} <= entry.keys() for entry in noted.values()
    )
    if not whole:
        raise ZooError(f"{file} cannot be read: move it away and run zoo-bench again, which writes it")
    found: dict[str, Any] = noted
    return found


def merged(folders: Iterable[Path]) -> list[Result]:
    """The results of several stores; the same run in two of them counts once, as it was left last."""
    found: dict[str, Result] = {}
    for folder in folders:
        file = folder / FILE if folder.is_dir() else folder
        if not file.exists():
            raise ZooError(f"{folder} has no {FILE}: name the folder of a bench")
        for key, result in read_results(file).items():
            if key not in found or _age(found[key]) <= _age(result):
                found[key] = result
    if not found:
        raise ZooError("there is no result yet: run zoo-bench first")
    return list(found.values())


def _age(result: Result) -> tuple[str, bool]:
    return result.stamps.get("ended", ""), result.tested


def newest(results: Sequence[Result]) -> Result:
    return max(enumerate(results), key=lambda each: (each[1].stamps.get("ended", ""), each[0]))[1]


def best_factor(results: Sequence[Result]) -> float | None:
    """The learning rate that an arm uses: the best on the validation split among those tried on its first seed."""
    first = min((r.seed for r in results), default=None)
    tried = [(r.valid_loss, r.lr_factor) for r in results if r.seed == first and r.valid_loss is not None]
    tried = [(loss, factor) for loss, factor in tried if math.isfinite(loss)]
    if tried:
        return min(tried)[1]
    return min((r.lr_factor for r in results if r.seed == first), default=None)
