"""Whether an arm has learned anything: one rule for suites and ladders."""

from __future__ import annotations

import math

import pytest

from zoo.report.trained import learned_nothing


@pytest.mark.parametrize(
    ("loss", "high", "entropy", "early", "nothing"),
    [
        (4.0, 4.1, 6.4, 5.0, False),
        (6.38, 6.41, 6.4, math.nan, True),  # not clearly below
        (6.38, math.nan, 6.4, math.nan, False),  # one seed: its loss
        (5.1, 5.2, 6.4, 5.0, True),  # above the plain block's at a tenth of its tokens
        (4.0, math.nan, math.nan, math.nan, False),
    ],
)
def test_what_has_learned_nothing(loss: float, high: float, entropy: float, early: float, nothing: bool) -> None:
    assert learned_nothing(loss, high, entropy, early) is nothing
