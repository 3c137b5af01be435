"""The words of a ladder."""

from __future__ import annotations

import pytest

from zoo.scaling.ladder_verdicts import VERDICTS, Trouble, ladder_verdict
from zoo.scaling.multiplier import Estimate, Multiplier, Overall, over_rungs

TOP = 36.0


def overall(*logs: float, error: float = 0.01) -> Overall:
    rungs = [Multiplier(TOP - 2 * i, Estimate(log, error, 50)) for i, log in enumerate(reversed(logs))]
    found = over_rungs(rungs)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("compute", "time", "expected"),
    [
        (overall(0.08, 0.08, 0.08), overall(0.05, 0.05, 0.05), "helps"),
        (overall(0.08, 0.08, 0.08), overall(-0.05, -0.05, -0.05), "helps, not in time"),
        (overall(0.08, 0.08, 0.08), None, "helps, not in time"),
        (overall(0.20, 0.10, 0.02), overall(0.20, 0.10, 0.02), "fades"),
        (overall(0.30, 0.22, 0.14, error=0.004), None, "fades"),  # at the top far above 1, beyond it not
        (
            overall(0.60, 0.58, 0.56, error=0.003),
            overall(0.5, 0.5, 0.5),
            "helps",
        ),  # it falls, and is far above 1 for long
        (overall(0.10, 0.09, 0.08), overall(0.1, 0.1, 0.1), "helps"),  # it falls less than its interval
        (overall(0.002, -0.002, 0.001, error=0.005), None, "the same"),
        (overall(0.012, 0.012, 0.012, error=0.002), overall(0.012, 0.012, 0.012, error=0.002), "the same"),
        (overall(-0.08, -0.06, -0.07), None, "hurts"),
        (overall(0.03, -0.02, 0.01, error=0.05), None, "open"),
        (None, None, "open"),
    ],
)
def test_verdicts(compute: Overall | None, time: Overall | None, expected: str) -> None:
    assert ladder_verdict(compute, time, TOP, margin=0.02) == expected
    assert expected in VERDICTS


def test_the_margin_decides_what_is_the_same() -> None:
    little = overall(0.03, 0.03, 0.03, error=0.003)
    assert ladder_verdict(little, little, TOP, margin=0.02) == "helps"
    assert ladder_verdict(little, little, TOP, margin=0.05) == "the same"


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (Trouble("diverged", 2), "diverged at rung 2"),
        (Trouble("did not train", 1), "did not train at rung 1"),
        (Trouble("leaks", 1), "leaks"),
    ],
)
def test_trouble_comes_before_losses(trouble: Trouble, expected: str) -> None:
    good = overall(0.2, 0.2, 0.2)
    assert ladder_verdict(good, good, TOP, 0.02, trouble) == expected and trouble.what in VERDICTS
