"""The top rung's losses from the rungs below it: by the law of the plain block, and by κ for the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from zoo.report.ladder_results import PLAIN, LadderFindings, RungResults
from zoo.scaling.loss_law import Array, Run, predicted_losses
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
        Run(rung.parameters, ((run.tokens, loss),))
        for rung in rungs
        for runs in rung.arms.values()
        if runs.noted.role in PLAIN
        for run, loss in zip(runs.finished, runs.losses(rung.split), strict=True)
    ]


def predict(findings: LadderFindings, target: Target) -> Predicted | None:
    """The loss of an arm; None where fewer than two sizes, or no κ, are known."""
    runs = plain_runs(findings.rungs)
    if len({run.size for run in runs}) < 2:
        return None
    plain, sample = predicted_losses(runs, target.size, target.tokens, target.seeds)
    tail = (1 - CONFIDENCE) / 2
    low, high = _quantiles(sample, tail)
    row = next((row for row in findings.rows if row.label == target.label), None)
    if row is None or row.role in PLAIN:
        return Predicted(plain, low, high, len(runs))
    if row.compute is None:
        return None
    x = math.log(target.compute)
    kappa = row.compute.projection(x) if len(row.rungs) > 1 else row.compute.log
    slope = _slope(runs, target)
    loss = plain - slope * (kappa.value - (x - math.log(target.charged)))
    reach = slope * (kappa.interval()[1] - kappa.value)
    return Predicted(loss, loss - math.hypot(plain - low, reach), loss + math.hypot(high - plain, reach), len(runs))


def _slope(runs: Sequence[Run], target: Target) -> float:
    """What an e-fold of compute is worth at the target, by the law: both size and tokens grow by its square root."""
    losses = []
    for step in (-STEP / 2, STEP / 2):
        factor = math.exp(step / 2)
        losses.append(predicted_losses(runs, target.size * factor, target.tokens * factor, 1, resamples=0)[0])
    return (losses[0] - losses[1]) / STEP


def _quantiles(sample: Array, tail: float) -> tuple[float, float]:
    import numpy as np

    low, high = np.quantile(sample, [tail, 1 - tail])
    return float(low), float(high)
