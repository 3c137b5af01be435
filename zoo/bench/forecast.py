"""What a bench has still to run, and how long that should take."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from zoo.bench.arms import Arm, Job, text_of
from zoo.bench.missing import missing_counts
from zoo.bench.seeds import seed_counts, tuning_runs
from zoo.bench.store import Result, by_arm
from zoo.bench.suite import Suite
from zoo.bench.synthetic_step import training
from zoo.bench.timing import Worker
from zoo.system.files import write_atomically
from zoo.system.table import counted

ROUNDS, PATIENCE = 15, 5.0  # of a measurement: steps, and seconds after which there are fewer
LARGEST = 4e11  # FLOPs of a step that is measured; of a larger one some rows
FRESH = 3600.0  # seconds for which a measurement is used again
ALIKE = ("data.batch_size", "data.length", "train.accumulate")  # settings that make steps of one size


class Pace(NamedTuple):
    """How fast a model trains here."""

    start: float  # seconds until the first step
    step: float  # the median of several
    low: float  # a tenth of the steps were quicker
    high: float  # a tenth were slower


class Estimate(NamedTuple):
    """Seconds of a run: what is likely, and a range in which 8 of 10 would be."""

    low: float
    likely: float
    high: float


NOTHING = Estimate(0.0, 0.0, 0.0)


class ArmForecast(NamedTuple):
    """The runs of an arm that are still to be made, and their cost."""

    arm: Arm
    runs: int  # in all, those of the store too
    fewest: int  # to run
    most: int  # to run, should another learning rate than today's turn out to be the best
    run: Estimate

    @property
    def total(self) -> Estimate:
        """The seconds of all that is still to run, one run after the other."""
        likely = (self.fewest + self.most) / 2 * self.run.likely
        return Estimate(low=self.fewest * self.run.low, likely=likely, high=self.most * self.run.high)

    @property
    def flops(self) -> float:
        """The FLOPs of all that is likely still to run."""
        return (self.fewest + self.most) / 2 * training_flops(self.arm)


def training_flops(arm: Arm) -> float:
    """The FLOPs of one run's training."""
    return arm.steps * arm.tokens_per_step * arm.flops


def in_flops(flops: float) -> str:
    """A forecast in FLOPs, for other machines than this one, in words."""
    return f"{flops:.3g} FLOPs of training: on other devices that / (3600 × the FLOP/s that a run reaches) hours of one"


def forecast_arms(
    arms: Sequence[Arm],
    suite: Suite,
    results: Mapping[str, Result],
    forecast: Forecast,
    with_corpus: bool = True,
    seeds: int | None = None,
) -> list[ArmForecast]:
    """What is still to run of every arm; without its corpus no run counts as one that the store has.

    `seeds` are those of a method, where they are not the suite's.
    """
    of_arm, counts = by_arm(results.values()), seed_counts(arms, suite, seeds)
    forecasts = []
    for arm in arms:
        count = counts[arm.id]
        runs = len(tuning_runs([arm], suite)) + count
        stored = of_arm.get(arm.id, ())
        fewest, most = missing_counts(arm, suite, count, results, stored) if with_corpus else (runs, runs)
        run = forecast.of(arm) if most else NOTHING
        forecasts.append(ArmForecast(arm=arm, runs=runs, fewest=fewest, most=most, run=run))
    return forecasts


def total_seconds(forecasts: Iterable[ArmForecast], at_a_time: int) -> Estimate:
    """The seconds of all that is still to run, so many at a time."""
    totals = [each.total for each in forecasts]
    low, likely, high = (sum(parts) / at_a_time for parts in zip(*totals, strict=True))
    return Estimate(low, likely, high)


class Forecast:
    """How long runs should take: by the runs of the store that have steps of one size, else by steps measured here.

    Only FLOPs tell arms apart, so that arms of as many FLOPs get the same forecast. `smaller` is that of smaller models: where a
    single row of a step is too much to be measured, a FLOP takes as long as there.
    """

    def __init__(
        self, arms: Sequence[Arm], results: Iterable[Result], cores: int, smaller: Forecast | None = None
    ) -> None:
        self._smaller = smaller
        self._plain = min(arms, key=lambda arm: arm.flops)
        self._cores = cores
        size = _size(Job(self._plain, 1, 1.0).settings)
        self._paces = [
            run.seconds / (run.steps * run.flops)
            for run in results
            if run.status == "finished" and run.steps and run.seconds > 0 and _size(run.settings) == size
        ]

    @property
    def basis(self) -> str:
        """What the forecast is made from, in words."""
        if not self._paces:
            return "estimated from a few training steps, without validation"
        return f"estimated from {counted(len(self._paces), 'run')} in the store"

    def of(self, arm: Arm) -> Estimate:
        """The seconds of one run."""
        work = arm.steps * arm.flops
        if self._paces:
            return Estimate(*(each * work for each in spread(self._paces)))
        pace, relative = self._pace, arm.flops / self._plain.flops
        return Estimate(*(pace.start + arm.steps * relative * step for step in (pace.low, pace.step, pace.high)))

    @functools.cached_property
    def _pace(self) -> Pace:
        too_large = _flops_of_row(self._plain) > LARGEST
        if self._smaller is None or not too_large:
            return pace(self._plain, self._cores)
        known, ratio = self._smaller._pace, step_flops(self._plain) / step_flops(self._smaller._plain)
        return Pace(known.start, *(ratio * each for each in (known.step, known.low, known.high)))


def _size(settings: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(settings.get(name, "") for name in ALIKE)


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The 10th percentile, the median, the 90th percentile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    return tenths[0], statistics.median(values), tenths[-1]


def pace(arm: Arm, threads: int) -> Pace:
    """How fast this arm trains here, by real steps in a process of its own; a measurement is used again for an hour."""
    file = _pace_file(arm, threads)
    with contextlib.suppress(OSError, ValueError, TypeError):
        if 0 <= time.time() - file.stat().st_mtime < FRESH:
            return Pace(*map(float, json.loads(file.read_bytes())))
    began = time.monotonic()
    text, share = measured_step(arm)
    with Worker(arm.name, functools.partial(training, text), threads=threads, warm_up=2) as worker:
        start, steps = time.monotonic() - began, [worker.time(1)]
        while len(steps) < 3 or (len(steps) < ROUNDS and time.monotonic() - began < start + PATIENCE):
            steps.append(worker.time(1))
    low, likely, high = spread(steps)
    measured = Pace(start=max(0.0, start - 2 * likely), step=likely / share, low=low / share, high=high / share)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(measured))
    return measured


def step_flops(arm: Arm) -> float:
    return arm.tokens_per_step * arm.flops


def _flops_of_row(arm: Arm) -> float:
    return float({**arm.defaults, **arm.values}["data.length"]) * arm.flops


def measured_step(arm: Arm) -> tuple[str, float]:
    """The configuration of the step that is measured, at least one row, and its share of the arm's step."""
    values = Job(arm, 1, 1.0).values
    if step_flops(arm) <= LARGEST:
        return text_of(values), 1.0
    given = {**arm.defaults, **values}
    rows = max(1, min(given["data.batch_size"], int(LARGEST / _flops_of_row(arm))))
    fewer = {**values, "data.batch_size": rows, "train.accumulate": 1}
    return text_of(fewer), rows * given["data.length"] / arm.tokens_per_step


def _pace_file(arm: Arm, threads: int) -> Path:
    """The file with the pace of this arm; every setting counts."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    which = f"{sorted(Job(arm, 1, 1.0).settings.items())} {threads}"
    return Path(cache, "zoo", f"pace-{hashlib.sha256(which.encode()).hexdigest()[:16]}.json")
