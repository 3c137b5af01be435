"""The margin: the smallest difference in loss that matters."""

from __future__ import annotations

import math
import statistics

from zoo.bench.store import Result
from zoo.report.arm_results import ArmResults

LEAST = 0.005  # nats per token: no smaller margin is taken from a training curve
WORTH = 0.01  # the share of compute whose worth to the plain block is the margin


def worth_of_compute(plain: ArmResults | None) -> float:
    """The margin where a suite sets none: what 1 % more compute is worth to the plain block, but at least 0.005 nats.

    Of one model, 1 % more compute is 1 % more tokens. d loss / d ln tokens is the slope of the least-squares line through a
    run's logged training losses against ln tokens, over the second half of its tokens; of several runs, the mean. Without
    three such points in any run it is not known.
    """
    slopes = [_late_slope(run) for run in plain.finished] if plain else []
    known = [slope for slope in slopes if not math.isnan(slope)]
    return max(LEAST, -WORTH * statistics.fmean(known)) if known else LEAST


def _late_slope(run: Result) -> float:
    """d loss / d ln tokens of a run's training curve, over the second half of its tokens."""
    end = run.training[-1][1] if run.training else 0
    late = [(math.log(tokens), loss) for _, tokens, _, loss in run.training if tokens > 0 and 2 * tokens >= end]
    if len(late) < 3 or len({x for x, _ in late}) < 2:
        return math.nan
    return statistics.linear_regression(*zip(*late, strict=True)).slope
