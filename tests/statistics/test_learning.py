"""Whether an arm has learned anything: one rule for suites and ladders."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from zoo.statistics.learning import learned_nothing


@pytest.mark.parametrize(
    ("losses", "entropy", "early", "nothing"),
    [
        ((4.0, 4.1, 4.2), 6.4, 5.0, False),
        ((6.36, 6.38, 6.40), 6.4, math.nan, True),  # not clearly below
        ((6.38,), 6.4, math.nan, False),  # one seed: its loss
        ((6.41,), 6.4, math.nan, True),
        ((5.1, 5.12), 6.4, 5.0, True),  # above the plain block's at a tenth of its tokens
        ((4.0,), math.nan, math.nan, False),
        ((), 6.4, 5.0, False),
    ],
)
def test_what_has_learned_nothing(losses: tuple[float, ...], entropy: float, early: float, nothing: bool) -> None:
    assert learned_nothing(losses, entropy, early) is nothing


def test_clearly_below_is_where_the_interval_of_scipy_is() -> None:
    losses = (6.10, 6.25, 6.19, 6.14)
    _, high = stats.ttest_1samp(losses, 0.0).confidence_interval(0.95)
    assert learned_nothing(losses, high - 1e-9, math.nan)
    assert not learned_nothing(losses, high + 1e-9, math.nan)
