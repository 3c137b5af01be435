"""The two-way models of a report: one for the arms that were judged together, of one suite, host and size."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Literal

from zoo.report.arm_results import ArmResults, Split, leaks
from zoo.report.trained import did_not_train
from zoo.report.verdict_words import DIVERGED, LEAKS, NOT_TRAINED
from zoo.statistics.difference import Difference
from zoo.statistics.two_way import TwoWay, fit_two_way

Measure = Literal["loss", "accuracy", "bits_per_byte"]


class FamilyModel:
    """The model of some arms, each at one learning rate, on one split.

    An arm that leaks, diverges or did not train is left out, so that the others' variances are not those of its failure:
    it is compared with its baseline alone. So is the known harm of a ladder.
    """

    def __init__(
        self, arms: Iterable[ArmResults], split: Split, early: float = math.nan, apart: Collection[str] = ()
    ) -> None:
        """`early` is the plain block's loss at a tenth of its tokens, which tells what did not train; `apart` are arms that
        are judged and say nothing of the others."""
        distinct = {arm.key: arm for arm in arms}
        self.void = {key: word for key, arm in distinct.items() if (word := void_verdict(arm, early))}
        sound = [arm for key, arm in distinct.items() if key not in self.void and arm.id not in apart]
        self.split = split
        self.arms = sound
        self._rows = {arm.key: row for row, arm in enumerate(sound)}
        self._fits: dict[Measure, TwoWay] = {}
        self._pairs: dict[tuple[object, object, Measure], TwoWay] = {}

    def __contains__(self, arm: ArmResults) -> bool:
        return arm.key in self._rows

    def fit(self, measure: Measure = "loss") -> TwoWay:
        """The fitted model of a measure."""
        if measure not in self._fits:
            self._fits[measure] = fit_two_way(_table(self.arms, measure, self.split))
        return self._fits[measure]

    def void_verdict(self, arm: ArmResults) -> str:
        """Why the losses of an arm decide nothing; empty where they do."""
        return self.void.get(arm.key, "")

    def difference(self, one: ArmResults, other: ArmResults, measure: Measure = "loss") -> Difference:
        """One arm less another; of an arm that was left out, by both alone."""
        ours, theirs = one.key, other.key
        if ours in self._rows and theirs in self._rows:
            return self.fit(measure).difference(self._rows[ours], self._rows[theirs])
        if (ours, theirs, measure) not in self._pairs:
            self._pairs[ours, theirs, measure] = fit_two_way(_table([one, other], measure, self.split))
        return self._pairs[ours, theirs, measure].difference(0, 1)


def void_verdict(arm: ArmResults, early: float) -> str:
    """Why the losses of an arm decide nothing: it leaks, diverged or did not train; empty where they do."""
    if leaks(arm):
        return LEAKS
    if arm.diverged:
        return DIVERGED
    return NOT_TRAINED if did_not_train(arm, early) else ""


def _table(arms: Iterable[ArmResults], measure: Measure, split: Split) -> list[list[float]]:
    """Arm × seed, NaN where there is no run."""
    columns = [arm.measured(measure, split) for arm in arms]
    seeds = sorted({seed for of_arm in columns for seed in of_arm})
    return [[of_arm.get(seed, math.nan) for seed in seeds] for of_arm in columns]
