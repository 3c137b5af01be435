"""Results by arm: the runs that count, and how two arms are compared fairly."""

from __future__ import annotations

import functools
import math
import statistics
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from zoo.bench.step_costs import StepCost
from zoo.bench.store import OWN, TUNING_SEED, Result, best_factor, is_tuning, newest
from zoo.bench.suite_notes import NO_NOTES, SuiteNotes
from zoo.config.values import changed
from zoo.counting.spent import Spent
from zoo.statistics.spread import Spread, spread
from zoo.system.json_rows import columns

Split = Literal["test", "validation"]


@dataclass(frozen=True, eq=False)
class ArmResults:
    """The runs of one arm that count: one per seed, at the arm's learning rate.

    What follows from them is kept: a baseline is asked as often as there are methods.
    """

    id: str
    runs: tuple[Result, ...]  # by seed, without the tuning seed
    tried: tuple[Result, ...]  # at every learning rate, with the tuning seed
    baselines: Mapping[str, str]  # of a method: how matched → the arm
    cost: StepCost | None = None  # compared with the plain model's, where that was measured
    plain_speed: float = math.nan  # of the plain model, where the cost was measured

    @functools.cached_property
    def first(self) -> Result:
        """The run of the first seed, for what all runs of an arm have in common."""
        return self.runs[0]

    @functools.cached_property
    def key(self) -> tuple[str, float]:
        """The arm at its learning rate."""
        return self.id, self.first.lr_factor

    @functools.cached_property
    def plain_arm(self) -> str:
        """The id of the plain model that it changes; arms with the same one can be compared."""
        return self.baselines.get("none", "")

    @functools.cached_property
    def spent(self) -> Spent:
        """The parameters, FLOPs per token and tokens of a run of the arm that does not diverge."""
        return Spent(self.first.parameters, self.first.flops, max(run.budget for run in self.runs))

    @functools.cached_property
    def factors(self) -> set[float]:
        """The learning rates that were tried for it."""
        return {run.lr_factor for run in self.tried if run.seed == self.tried[0].seed}

    def at(self, factors: set[float]) -> ArmResults:
        """The arm as it would be, had only these learning rates been tried."""
        factor = best_factor([run for run in self.tried if run.lr_factor in factors])
        runs = (run for run in self.tried if run.lr_factor == factor and not is_tuning(run.seed))
        return replace(self, runs=tuple(runs))

    @property
    def tuned_on_test_seed(self) -> bool:
        """Whether its learning rate was chosen by a run that is also judged, as before there was a tuning seed."""
        return len(self.factors) > 1 and self.tried[0].seed != TUNING_SEED

    @property
    def speed(self) -> float:
        """Tokens per second, undisturbed: the plain model's by the ratio that was measured, else this arm's own."""
        return self.plain_speed / self.cost.time_ratio.value if self.cost else self.own_speed

    @functools.cached_property
    def own_speed(self) -> float:
        """Tokens per second in the fastest tenth of the logged intervals, over all learning rates; other load only slows it."""
        speeds: list[float] = []
        for run in self.tried:
            _, tokens, seconds, _ = columns(run.training)
            steps = zip(tokens, tokens[1:], seconds, seconds[1:], strict=False)
            speeds += [(later - before) / (end - start) for before, later, start, end in steps if end > start]
        if len(speeds) < 10:
            return max(run.tokens_per_second for run in self.tried)
        return statistics.quantiles(speeds, n=10)[-1]

    @functools.cached_property
    def diverged(self) -> int:
        """The number of runs that diverged."""
        return sum(run.status == "diverged" for run in self.runs)

    @functools.cached_property
    def split(self) -> Split:
        """The test split, once all runs have been measured on it."""
        return "test" if all(run.test_loss is not None for run in self.finished) else "validation"

    @functools.cached_property
    def _losses(self) -> dict[Split, dict[int, float]]:
        return {}

    def losses(self, split: Split) -> dict[int, float]:
        """The loss of every finished run, by seed."""
        if split not in self._losses:
            self._losses[split] = self._losses_on(split)
        return self._losses[split]

    def _losses_on(self, split: Split) -> dict[int, float]:
        losses = {run.seed: run.test_loss if split == "test" else run.valid_loss for run in self.finished}
        return {seed: loss for seed, loss in losses.items() if loss is not None and math.isfinite(loss)}

    def measured(self, measure: Literal["loss", "accuracy", "bits_per_byte"], split: Split) -> dict[int, float]:
        """A figure of every finished run, by seed; accuracy and bits per byte are of the validation split."""
        if measure == "loss":
            return self.losses(split)
        values = {run.seed: run.accuracy if measure == "accuracy" else run.bits_per_byte for run in self.finished}
        return {seed: value for seed, value in values.items() if value is not None and math.isfinite(value)}

    @functools.cached_property
    def finished(self) -> list[Result]:
        """The runs that did not diverge."""
        return [run for run in self.runs if run.status != "diverged"]

    def mean(self, split: Split) -> float:
        """The mean of the losses over the seeds."""
        losses = self.losses(split).values()
        return statistics.fmean(losses) if losses else math.nan

    def spread(self, split: Split | None = None) -> Spread:
        """Mean and deviation of the losses over the seeds."""
        return spread(list(self.losses(split or self.split).values()))


def arms(results: Sequence[Result], notes: SuiteNotes = NO_NOTES) -> dict[str, ArmResults]:
    """Results by arm."""
    by_arm: dict[str, list[Result]] = {}
    for result in results:
        by_arm.setdefault(result.arm, []).append(result)
    chosen = {}
    for id, runs in by_arm.items():
        by_seed_and_factor = {(run.seed, run.lr_factor): run for run in current(runs)}
        tried = tuple(by_seed_and_factor[key] for key in sorted(by_seed_and_factor))
        baselines = {kind: arm for run in tried for kind, arm in run.baselines.items()}
        arm = ArmResults(id=id, runs=tried, tried=tried, baselines=baselines | dict(notes.baselines.get(id, {})))
        if (judged := arm.at(arm.factors)).runs:  # else only its learning rate has been chosen so far
            chosen[id] = judged
    measured = {id: cost for id, cost in notes.costs.items() if id in chosen and cost.plain in chosen}
    speeds = {plain: chosen[plain].own_speed for plain in {cost.plain for cost in measured.values()}}
    for id, cost in measured.items():
        chosen[id] = replace(chosen[id], cost=cost, plain_speed=speeds[cost.plain])
    return chosen


def current(runs: Sequence[Result]) -> list[Result]:
    """The runs that are like the newest: defaults or a corpus may have changed since the others."""
    last = newest(runs)
    # By the part of the settings that runs of a store share, one object for all of them.
    alike = {_settings_object(last): True}

    def is_like_last(run: Result) -> bool:
        if run.corpus != last.corpus:
            return False
        which = _settings_object(run)
        if which not in alike:
            alike[which] = not changed(_shared_settings(run), _shared_settings(last))
        return alike[which]

    return [run for run in runs if is_like_last(run)]


def _settings_object(run: Result) -> int:
    """Which object holds the settings that a run shares with others."""
    return id(run.settings.maps[-1]) if isinstance(run.settings, ChainMap) else id(run.settings)


def _shared_settings(run: Result) -> dict[str, str]:
    """The settings that all runs of an arm have in common."""
    return {key: value for key, value in run.settings.items() if key not in OWN}


def fair(one: ArmResults, other: ArmResults) -> tuple[ArmResults, ArmResults] | None:
    """Both arms, at the best of the learning rates that were tried for both; None if there is none, or they read other texts."""
    common = one.factors & other.factors
    if not common or one.first.corpus != other.first.corpus:
        return None
    # Arms come at the best of their own rates: most need no copy, of which there would be two per comparison.
    pair = tuple(arm if arm.factors == common else arm.at(common) for arm in (one, other))
    return (pair[0], pair[1]) if all(arm.runs for arm in pair) else None


def common_split(*arms: ArmResults) -> Split:
    """The split to compare arms on: an interrupted bench leaves arms that were not measured on the test split yet."""
    return "test" if all(arm.split == "test" for arm in arms) else "validation"


def leaks(arm: ArmResults) -> bool:
    """Whether a run saw later tokens, by declaration or by what the trainer noticed."""
    return any(not run.causal or run.alarm for run in arm.runs)
