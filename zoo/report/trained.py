"""Whether an arm has learned anything: comparing one that has not says nothing of its idea."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from zoo.bench.store import Result
from zoo.report.arm_results import ArmResults
from zoo.statistics.difference import from_bound

TENTH = 0.1  # of the plain block's tokens


def learned_nothing(loss: float, high: float, entropy: float, early: float) -> bool:
    """Whether a mean validation loss is not clearly below the unigram entropy, or above `early`.

    Clearly: `high`, the upper end of its 95 % interval, is below too; of one seed, where that is NaN, the loss. `early` is the
    plain block's loss at a tenth of its tokens. What is not known (NaN) speaks for neither.
    """
    return (loss if math.isnan(high) else high) >= entropy or loss > early


def did_not_train(arm: ArmResults, early: float) -> bool:
    """Whether an arm has learned nothing, by the interval of its own seeds. What diverged is judged as that."""
    losses = list(arm.losses("validation").values())
    if not losses or arm.diverged:
        return False
    high = from_bound(losses, 0.0).high
    return learned_nothing(statistics.fmean(losses), high, arm.first.unigram_entropy, early)


def early_loss(plain: Sequence[Result]) -> float:
    """The training loss of the plain block's runs at a tenth of their tokens, mean over seeds; NaN where none logged so early."""
    losses = [loss for run in plain if not math.isnan(loss := _loss_at(run, TENTH * run.budget))]
    return statistics.fmean(losses) if losses else math.nan


def _loss_at(run: Result, tokens: float) -> float:
    """The logged training loss at so many tokens, between the points around them by the logarithm of tokens."""
    before = [(point[1], point[3]) for point in run.training if 0 < point[1] <= tokens]
    after = [(point[1], point[3]) for point in run.training if point[1] >= tokens]
    if not before or not after:
        return math.nan
    (x0, y0), (x1, y1) = before[-1], after[0]
    return y0 + (y1 - y0) * math.log(tokens / x0) / math.log(x1 / x0) if x1 > x0 else y0
