"""Simulated suites: intervals cover, false verdicts are rare, power is as predicted."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

import numpy
import pytest

from zoo.statistics.dunnett import Question, adjusted_ps, critical_level
from zoo.statistics.power import detectable
from zoo.statistics.two_way import fit_two_way


class Suites(NamedTuple):
    """How suites are drawn: a control in row 0, then the methods."""

    methods: int
    seeds: int
    control_seeds: int
    seed_deviation: float  # relative to that of a run
    alike: float  # degrees of the spread of variances; infinite: all are equal


class Outcome(NamedTuple):
    covered: float  # of all intervals
    mistaken: float  # suites with any false verdict, without any difference
    shown: float  # of true differences as large as what is detectable


def simulated(suites: Suites, count: int) -> Outcome:
    """What comes of so many suites without any difference, and of the same with one as large as they can reveal."""
    drawn = numpy.random.default_rng(suites.methods * 100 + suites.seeds)
    tables = [table(suites, drawn) for _ in range(count)]
    null = [questions(each) for each in tables]
    covered = sum(one.low <= 0 <= one.high for asked in null for one, _ in asked)
    mistaken = sum(min(adjusted_ps(asked)) < 0.05 for asked in null)
    revealed = [detectable(asked[0].difference, critical_level(asked, 0.05)) for asked in null]
    effect = math.sqrt(statistics.fmean(each**2 for each in revealed))  # of the true variance, on average
    for each in tables:
        each[1] += effect
    shown = sum(adjusted_ps(questions(each))[0] < 0.05 for each in tables)
    return Outcome(covered / count / suites.methods, mistaken / count, shown / count)


def table(suites: Suites, drawn: numpy.random.Generator) -> numpy.ndarray:
    shape = (suites.methods + 1, max(suites.seeds, suites.control_seeds))
    deviations = numpy.full(shape[0], 0.02)
    if math.isfinite(suites.alike):
        deviations /= numpy.sqrt(drawn.chisquare(suites.alike, shape[0]) / suites.alike)
    values = drawn.normal(size=shape) * deviations[:, None] + drawn.normal(0, 0.02 * suites.seed_deviation, shape[1])
    values[0, suites.control_seeds :] = values[1:, suites.seeds :] = math.nan
    return values


def questions(values: numpy.ndarray) -> list[Question]:
    fit = fit_two_way(values)
    return [Question(fit.difference(i, 0), 0) for i in range(1, len(values))]


def check(suites: Suites, count: int) -> None:
    """93–97 % (more of few arms), at most 5 %, and four of five or more, each within what chance leaves of so many suites."""
    outcome = simulated(suites, count)
    print(f"{suites} {outcome}")
    chance = 2.6 * math.sqrt(0.05 * 0.95 / count)
    most = 0.97 if suites.methods > 3 else 0.98
    assert 0.93 - chance / 2 <= outcome.covered <= most + chance / 2, outcome
    assert outcome.mistaken <= 0.05 + chance, outcome
    if math.isinf(suites.alike):
        assert 0.8 - 1.8 * chance <= outcome.shown <= 0.95, outcome


ALIKE = [
    Suites(1, 3, 3, 1.0, math.inf),
    Suites(2, 3, 3, 0.5, math.inf),
    Suites(7, 3, 8, 0.5, math.inf),
    Suites(30, 5, 5, 0.5, math.inf),
]
UNLIKE = [
    Suites(7, 3, 3, 0.0, 10.0),
    Suites(30, 3, 16, 1.0, 10.0),
    Suites(2, 3, 3, 0.5, 2.0),
    Suites(7, 3, 3, 0.5, 2.0),
    Suites(7, 5, 13, 0.5, 4.0),
    Suites(30, 3, 3, 0.5, 2.0),
    Suites(30, 3, 16, 0.5, 4.0),
    Suites(30, 3, 16, 0.5, 2.0),
]


@pytest.mark.parametrize("suites", [ALIKE[2], UNLIKE[3]], ids=str)
def test_two_hundred_suites(suites: Suites) -> None:
    check(suites, 200)


@pytest.mark.slow
@pytest.mark.parametrize("suites", [*ALIKE, *UNLIKE], ids=str)
def test_two_thousand_suites(suites: Suites) -> None:
    check(suites, 2000)
