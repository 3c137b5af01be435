"""Suites that go on until decided, simulated: seeds are added where a verdict is open, and false verdicts stay rare."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy
import pytest

from zoo.bench.seeds import control_seeds
from zoo.bench.suite import Suite
from zoo.bench.suite_notes import NO_NOTES
from zoo.report.undecided import needs_seeds
from zoo.report.verdict_words import BETTER, SAME, WORSE
from zoo.report.verdicts import Comparison, verdict
from zoo.statistics.dunnett import Question, adjusted_ps, critical_level
from zoo.statistics.looks import levels_at
from zoo.statistics.two_way import fit_two_way

LOOKS = (3, 5, 8)
NOTES = NO_NOTES._replace(looks={"s": LOOKS})
DEVIATION = 0.02


class Suites(NamedTuple):
    """How suites are drawn: a control in row 0, then the methods."""

    methods: int
    seed_deviation: float  # relative to that of a run
    alike: float  # degrees of the spread of variances; infinite: all are equal
    effect: float = 0.0  # of all methods, in deviations of a run
    margin: float = 0.0  # the same


class Outcome(NamedTuple):
    """What came of suites that went on until they were decided."""

    any_shown: float  # suites in which some method was called better or worse
    shown: float  # methods
    same: float  # methods that were called the same
    runs: float  # of the methods, as a part of all that the last look asks for


def simulated(suites: Suites, count: int) -> Outcome:
    drawn = numpy.random.default_rng(suites.methods)
    sums = numpy.zeros(4)
    for _ in range(count):
        words, seeds = decided(losses(suites, drawn), suites.margin * DEVIATION)
        shown = [word in (BETTER, WORSE) for word in words]
        sums += any(shown), numpy.mean(shown), words.count(SAME) / len(words), numpy.mean(seeds) / LOOKS[-1]
    return Outcome(*(sums / count))


def losses(suites: Suites, drawn: numpy.random.Generator) -> numpy.ndarray:
    """Of every arm as many seeds as the last look could ask for."""
    shape = suites.methods + 1, control_seeds(LOOKS[-1], suites.methods, Suite())
    deviations = numpy.full(shape[0], DEVIATION)
    if math.isfinite(suites.alike):
        deviations /= numpy.sqrt(drawn.chisquare(suites.alike, shape[0]) / suites.alike)
    values = drawn.normal(size=shape) * deviations[:, None]
    values[1:] += suites.effect * DEVIATION
    return values + drawn.normal(0, DEVIATION * suites.seed_deviation, shape[1])


def decided(values: numpy.ndarray, margin: float) -> tuple[list[str], list[int]]:
    """The verdicts in the end, and the seeds of each method."""
    methods = len(values) - 1
    seeds, open_ones, control = [0] * methods, list(range(methods)), 0
    found: list[Comparison] = []
    for look in LOOKS:
        for method in open_ones:
            seeds[method] = look
        control = max(control, control_seeds(look, len(open_ones), Suite()))
        known = values.copy()
        for row, n in enumerate([control, *seeds]):
            known[row, n:] = math.nan
        found = judged(known, margin)
        open_ones = [method for method in open_ones if needs_seeds(found[method], NOTES)]
        if not open_ones:
            break
    return [c.verdict for c in found], seeds


def judged(known: numpy.ndarray, margin: float) -> list[Comparison]:
    """The comparisons with the control, as a report judges them."""
    fit = fit_two_way(known)
    questions = [Question(fit.difference(arm, 0), 0) for arm in range(1, len(known))]
    levels = [levels_at(question.difference.n, LOOKS) for question in questions]
    own = {level: critical_level(questions, level.different) for level in set(levels)}
    arm = cast(Any, None)
    return [
        Comparison(
            method=arm,
            baseline=arm,
            match="none",
            suite="s",
            plain=None,
            margin=margin,
            split="test",
            provisional=False,
            difference=question.difference,
            levels=level,
            own_level=own[level],
            verdict=verdict(question.difference, p, margin, level),
        )
        for question, level, p in zip(questions, levels, adjusted_ps(questions), strict=True)
    ]


NULL = [
    Suites(1, 0.5, math.inf),
    Suites(7, 0.5, math.inf),
    Suites(7, 0.5, 4.0),
    Suites(20, 0.0, math.inf),
    Suites(20, 1.0, 2.0),
]


def check_null(suites: Suites, count: int) -> None:
    outcome = simulated(suites, count)
    print(suites, outcome)
    assert outcome.any_shown <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / count), outcome


def test_a_hundred_suites() -> None:
    check_null(NULL[2], 100)
    helpful = simulated(Suites(3, 0.5, math.inf, effect=-3.0), 30)
    assert helpful.shown > 0.9 and helpful.runs < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("suites", NULL, ids=str)
def test_two_thousand_suites(suites: Suites) -> None:
    check_null(suites, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("methods", [1, 7])
def test_a_difference_as_large_as_the_margin_is_seldom_called_the_same(methods: int) -> None:
    """Each look's part of two one-sided tests at 5 %: at the edge of the margin no more than that in all."""
    outcome = simulated(Suites(methods, 0.5, math.inf, effect=2.0, margin=2.0), 2000)
    print(outcome)
    assert outcome.same <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 2000 / methods), outcome
