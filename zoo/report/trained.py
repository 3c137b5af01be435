"""Which arms did not train, and what the plain block had learned by a tenth of its tokens."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from zoo.bench.store import Result
from zoo.report.arm_results import ArmResults
from zoo.statistics.learning import learned_nothing

TENTH = 0.1  # of the plain block's tokens


def did_not_train(arm: ArmResults, early: float) -> bool:
    """Whether an arm has learned nothing. What diverged is judged as that."""
    losses = list(arm.losses("validation").values())  # which the entropy is of
    return not arm.diverged and learned_nothing(losses, arm.first.unigram_entropy, early)


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
