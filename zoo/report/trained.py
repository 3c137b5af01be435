"""Whether an arm has learned anything: comparing one that has not says nothing of its idea."""

from __future__ import annotations

import math
import statistics

from zoo.bench.store import Result
from zoo.report.arm_results import ArmResults
from zoo.statistics.difference import from_bound

TENTH = 0.1  # of the plain block's tokens


def did_not_train(arm: ArmResults, early: float) -> bool:
    """Whether its validation loss is not clearly below the unigram entropy, or above the plain block's at a tenth of its tokens.

    `early` is that loss of the plain block, NaN where it is not known. Clearly: the whole 95 % interval of the seeds; of one
    seed, its loss. What diverged is judged as that.
    """
    losses = list(arm.losses("validation").values())
    if not losses or arm.diverged:
        return False
    entropy = arm.first.unigram_entropy
    if math.isfinite(entropy):
        from_entropy = from_bound(losses, entropy)
        if (from_entropy.high if from_entropy.known else from_entropy.mean) >= 0:
            return True
    return statistics.fmean(losses) > early  # false for NaN


def early_loss(plain: ArmResults | None) -> float:
    """The training loss of the plain block at a tenth of its tokens, mean over seeds; NaN where it logged nothing so early."""
    runs = plain.finished if plain else ()
    losses = [loss for run in runs if not math.isnan(loss := _loss_at(run, TENTH * run.budget))]
    return statistics.fmean(losses) if losses else math.nan


def _loss_at(run: Result, tokens: float) -> float:
    """The logged training loss at so many tokens, between the points around them by the logarithm of tokens."""
    before = [(point[1], point[3]) for point in run.training if 0 < point[1] <= tokens]
    after = [(point[1], point[3]) for point in run.training if point[1] >= tokens]
    if not before or not after:
        return math.nan
    (x0, y0), (x1, y1) = before[-1], after[0]
    return y0 + (y1 - y0) * math.log(tokens / x0) / math.log(x1 / x0) if x1 > x0 else y0
