"""The top rung's losses from the rungs below it: by the law of the plain block, and by κ for the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoo.bench.ladder_notes import PLAIN
from zoo.report.ladder_results import LadderFindings, LadderRow, RungResults, budget_points
from zoo.scaling.loss_law import LossLaw, Run, law_of, resampled_losses
from zoo.scaling.multiplier import CONFIDENCE

STEP = 0.1  # in ln C, over which the law's slope is taken


class Target(NamedTuple):
    """What is to be predicted: an arm at a size."""

    label: str
    size: int  # N
    tokens: int  # D
    seeds: int
    compute: float  # FLOPs of the plain block there
    charged: float  # FLOPs of the arm


class Predicted(NamedTuple):
    """A mean loss and its 95 % interval, and how many runs of the plain block it was predicted from."""

    loss: float
    low: float
    high: float
    runs: int


def plain_runs(rungs: Sequence[RungResults]) -> list[Run]:
    """Every run of the plain block, whatever its seed and budget."""
    return [
        Run(rung.parameters, tuple(points))
        for rung in rungs
        for runs in rung.arms.values()
        if runs.noted.role in PLAIN
        for run in runs.finished
        if (points := budget_points(run, rung.split))
    ]


def predict(findings: LadderFindings, targets: Sequence[Target]) -> dict[str, Predicted]:
    """The loss of every arm, by label; nothing where fewer than two sizes, or no κ of the arm, are known."""
    runs = plain_runs(findings.rungs)
    if len({run.size for run in runs}) < 2:
        return {}
    law = law_of(runs)
    intervals: dict[tuple[int, int, int], tuple[float, float]] = {}
    predicted = {}
    for target in targets:
        place = target.size, target.tokens, target.seeds
        if place not in intervals:
            low, high = np.quantile(resampled_losses(runs, *place), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
            intervals[place] = float(low), float(high)
        plain = Predicted(float(law.loss(target.size, target.tokens)[0]), *intervals[place], len(runs))
        row = next((row for row in findings.rows if row.label == target.label), None)
        if row is None or row.role in PLAIN:
            predicted[target.label] = plain
        elif row.compute is not None:
            predicted[target.label] = _beside(plain, row, target, slope_of(law, target.size, target.tokens))
    return predicted


def _beside(plain: Predicted, row: LadderRow, target: Target, slope: float) -> Predicted:
    """The loss of an arm beside the plain block's: ΔL = −s·(ln κ − ln(C_plain/C_method)), κ projected to the target."""
    assert row.compute is not None
    x = math.log(target.compute)
    kappa = row.compute.projection(x) if len(row.compute.rungs) > 1 else row.compute.log
    loss = plain.loss - slope * (kappa.value - (x - math.log(target.charged)))
    reach = slope * (kappa.interval()[1] - kappa.value)
    low, high = loss - math.hypot(plain.loss - plain.low, reach), loss + math.hypot(plain.high - plain.loss, reach)
    return Predicted(loss, low, high, plain.runs)


def slope_of(law: LossLaw, size: float, tokens: float) -> float:
    """What an e-fold of compute is worth, by the law: both size and tokens grow by its square root."""
    factor = math.exp(STEP / 4)
    before, after = law.loss(size / factor, tokens / factor), law.loss(size * factor, tokens * factor)
    return float(before[0] - after[0]) / STEP
