"""Dunnett's test against scipy's, a multivariate t, and drawn numbers; the detectable effect against drawn tests."""

from __future__ import annotations

import math

import numpy
import pytest
from scipy import stats

from zoo.statistics.difference import Difference
from zoo.statistics.dunnett import Question, adjusted_ps, critical_level
from zoo.statistics.power import detectable


def questions(groups: list[numpy.ndarray], control: numpy.ndarray) -> list[Question]:
    """As in textbooks: one variance of all groups, no seeds."""
    arms = [control, *groups]
    degrees = sum(len(arm) - 1 for arm in arms)
    variance = sum(((arm - arm.mean()) ** 2).sum() for arm in arms) / degrees
    return [
        Question(
            Difference(
                n=len(arm),
                n_other=len(control),
                mean=arm.mean() - control.mean(),
                error=math.sqrt(variance * (1 / len(arm) + 1 / len(control))),
                degrees=degrees,
                shared=(1 / len(control)) / (1 / len(arm) + 1 / len(control)),
                pooled=True,
            ),
            "control",
        )
        for arm in groups
    ]


@pytest.mark.parametrize("sizes", [(4, 4, 4, 4), (3, 5, 8), (3, 3), (6, 3, 3, 3, 3, 3, 3)])
def test_p_values_are_scipys(sizes: tuple[int, ...]) -> None:
    drawn = numpy.random.default_rng(len(sizes))
    control, *groups = (drawn.normal(0.5 * i, 1.0, n) for i, n in enumerate(sizes))
    theirs = stats.dunnett(*groups, control=control, rng=numpy.random.default_rng(0))
    assert adjusted_ps(questions(groups, control)) == pytest.approx(theirs.pvalue, abs=2e-3)


def test_dunnetts_own_table() -> None:
    """Dunnett (1955, 1964): two-sided 5 %, ρ = ½."""
    for degrees, methods, bound in ((10, 2, 2.57), (10, 3, 2.76), (20, 5, 2.73), (60, 9, 2.77)):
        at = Difference(n=3, n_other=3, mean=bound, error=1.0, degrees=degrees, pooled=True)
        assert adjusted_ps([Question(at, 0)] * methods)[0] == pytest.approx(0.05, abs=1.5e-3)
        level = critical_level([Question(at, 0)] * methods, 0.05)
        assert stats.t.isf(level / 2, degrees) == pytest.approx(bound, abs=0.01)


def test_one_question_is_students() -> None:
    one = Difference(n=3, n_other=3, mean=2.0, error=1.0, degrees=4.0)
    assert (
        adjusted_ps([Question(one, 0)]) == pytest.approx([one.p]) and critical_level([Question(one, 0)], 0.05) == 0.05
    )


def test_what_is_not_known_asks_nothing() -> None:
    one, none = Difference(n=3, n_other=3, mean=2.0, error=1.0, degrees=4.0), Difference(n=1, n_other=3, mean=1.0)
    ps = adjusted_ps([Question(none, 0), Question(one, 0), Question(none, 0)])
    assert math.isnan(ps[0]) and ps[1] == pytest.approx(one.p)


@pytest.mark.parametrize("pooled", [True, False])
def test_against_drawn_numbers(pooled: bool) -> None:
    """Two controls, unequal loadings; a variance of all or of each."""
    shared, controls, degrees = [0.2, 0.5, 0.7, 0.5, 0.3], [0, 0, 0, 1, 1], 7
    asked = [
        Question(Difference(n=3, n_other=3, mean=m, error=1.0, degrees=degrees, shared=s, pooled=pooled), c)
        for m, s, c in zip((0.5, 1.5, 2.5, 3.0, 4.0), shared, controls, strict=True)
    ]
    drawn = numpy.random.default_rng(0)
    z, e = drawn.normal(size=(200_000, 2))[:, controls], drawn.normal(size=(200_000, 5))
    u = numpy.sqrt(drawn.chisquare(degrees, (200_000, 1 if pooled else 5)) / degrees)
    largest = numpy.abs((numpy.sqrt(shared) * z + numpy.sqrt(1 - numpy.array(shared)) * e) / u).max(axis=1)
    wanted = [(largest > abs(each.difference.t)).mean() for each in asked]
    assert adjusted_ps(asked) == pytest.approx(wanted, abs=4e-3)


def test_more_questions_never_make_a_p_smaller() -> None:
    one = Difference(n=3, n_other=3, mean=2.9, error=1.0, degrees=9.0)
    ps = [adjusted_ps([Question(one, 0)] * m)[0] for m in (1, 2, 5, 20, 60)]
    assert ps == sorted(ps) and ps[-1] <= 60 * one.p


@pytest.mark.parametrize(("degrees", "level"), [(4.0, 0.05), (12.0, 0.05), (40.0, 0.004)])
def test_the_detectable_effect_is_shown_four_times_of_five(degrees: float, level: float) -> None:
    error = 0.3
    effect = detectable(Difference(n=3, n_other=3, mean=0.0, error=error, degrees=degrees), level)
    drawn = numpy.random.default_rng(1)
    t = (effect / error + drawn.normal(size=100_000)) / numpy.sqrt(drawn.chisquare(degrees, 100_000) / degrees)
    assert (numpy.abs(t) > stats.t.isf(level / 2, degrees)).mean() == pytest.approx(0.8, abs=0.01)
    assert math.isnan(detectable(Difference(n=1, n_other=3, mean=0.0), level))
