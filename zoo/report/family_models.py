"""The two-way models of a report: one for the arms that were judged together, of one suite, host and size."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from zoo.report.arm_results import ArmResults, Split, leaks
from zoo.report.trained import did_not_train
from zoo.statistics.difference import Difference
from zoo.statistics.two_way import TwoWay, fit_two_way

Measure = Literal["loss", "accuracy", "bits_per_byte"]


class FamilyModel:
    """The model of some arms, each at one learning rate, on one split.

    An arm that leaks, diverges or did not train is left out, so that the others' variances are not those of its failure:
    it is compared with its baseline alone.
    """

    def __init__(self, arms: Iterable[ArmResults], split: Split, plain: ArmResults | None) -> None:
        distinct = {_key(arm): arm for arm in arms}
        sound = [arm for arm in distinct.values() if not (arm.diverged or leaks(arm) or did_not_train(arm, plain))]
        self.split = split
        self.arms = sound
        self._rows = {_key(arm): row for row, arm in enumerate(sound)}
        self._fits: dict[Measure, TwoWay] = {}

    def __contains__(self, arm: ArmResults) -> bool:
        return _key(arm) in self._rows

    def fit(self, measure: Measure = "loss") -> TwoWay:
        """The fitted model of a measure."""
        if measure not in self._fits:
            self._fits[measure] = fit_two_way(_table(self.arms, measure, self.split))
        return self._fits[measure]

    def difference(self, one: ArmResults, other: ArmResults, measure: Measure = "loss") -> Difference:
        """One arm less another; of an arm that was left out, by both alone."""
        if one in self and other in self:
            return self.fit(measure).difference(self._rows[_key(one)], self._rows[_key(other)])
        return fit_two_way(_table([one, other], measure, self.split)).difference(0, 1)


def _key(arm: ArmResults) -> tuple[str, float]:
    """An arm at its learning rate."""
    return arm.id, arm.first.lr_factor


def _table(arms: Iterable[ArmResults], measure: Measure, split: Split) -> list[list[float]]:
    """Arm × seed, NaN where there is no run."""
    columns = [arm.measured(measure, split) for arm in arms]
    seeds = sorted({seed for of_arm in columns for seed in of_arm})
    return [[of_arm.get(seed, math.nan) for seed in seeds] for of_arm in columns]
