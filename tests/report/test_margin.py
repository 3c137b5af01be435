"""The smallest difference that matters: its formula, the verdicts and claims that follow from it, what a store keeps of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy
import pytest
from helpers.made_up_results import result, study

from zoo.bench.store import Result
from zoo.bench.suite import Suite
from zoo.bench.suite_notes import SUITES, SuiteNotes, note_suite, read_suite_notes, remember_margins
from zoo.errors import ConfigError
from zoo.report.claim_outcomes import relation_status
from zoo.report.findings import Findings
from zoo.report.html_report import html_report
from zoo.report.pages import markdown
from zoo.report.verdicts import compare
from zoo.statistics.difference import from_bound


def margin_of(curves: list[list[tuple[int, int, float, float]]]) -> float:
    """The larger of 0.005 nats and 1 % of the slope d loss / d ln tokens, in the second half of the tokens."""
    slopes = []
    for curve in curves:
        late = [(math.log(point[1]), point[3]) for point in curve if point[1] >= curve[-1][1] / 2]
        slopes.append(numpy.polyfit([x for x, _ in late], [y for _, y in late], 1)[0])
    return max(0.005, 0.01 * -sum(slopes) / len(slopes))


def falling(slope: float, seed: int) -> list[tuple[int, int, float, float]]:
    """A curve that falls by `slope` per e-fold of tokens, later faster, with some noise."""
    noise = numpy.random.default_rng(seed).normal(0, 0.05, 41)
    return [
        (10 * i, 1000 * i, float(i), 9.0 - slope * math.log(i) * (1.5 if i > 20 else 1.0) + noise[i])
        for i in range(1, 41)
    ]


@pytest.mark.parametrize("slope", [-0.5, 0.1, 1.0, 3.0])
def test_the_margin_is_what_one_percent_of_the_tokens_is_worth(slope: float) -> None:
    curves = [falling(slope, seed) for seed in (1, 2, 3)]
    plain = [result("baseline", s, 3.0 + s / 10, training=curves[s - 1]) for s in (1, 2, 3)]
    (found,) = compare(plain + [result("m", s, 3.1 + s / 10) for s in (1, 2, 3)])
    assert found.margin == pytest.approx(margin_of(curves))
    assert (found.margin > 0.005) == (slope >= 1.0)


def naive(differences: list[float], significant: bool, margin: float) -> str:
    """The sentence that defines a verdict, written out."""
    n, mean = len(differences), sum(differences) / len(differences)
    deviation = math.sqrt(sum((d - mean) ** 2 for d in differences) / (n - 1))
    reach = {3: 2.919986}[n] * deviation / math.sqrt(n)  # of the 90 % interval
    if -margin <= mean - reach and mean + reach <= margin:
        return "the same"
    return ("better" if mean < 0 else "worse") if significant else "open"


@pytest.mark.parametrize("margin", [0.001, 0.005, 0.02, 0.2])
@pytest.mark.parametrize("offset", [0.0, -0.004, 0.004, -0.01, 0.01, -0.1, 0.1])
@pytest.mark.parametrize("noise", [0.0001, 0.001, 0.01, 0.1])
def test_a_verdict_by_the_sentence_that_defines_it(margin: float, offset: float, noise: float) -> None:
    differences = [offset + noise, offset - 2 * noise, offset + noise]
    runs = study(offset, noise=(noise, -2 * noise, noise))
    (found,) = compare(runs, SuiteNotes({"m": "mine"}, {}, (), margins={"mine": margin}))
    assert found.verdict == naive(differences, found.difference.p < 0.05, margin)


def test_a_trace_of_a_difference_is_not_better() -> None:
    (found,) = compare(study(-0.0003, noise=(0.00001, -0.00002, 0.00001)))
    assert found.p_adjusted < 0.05 and found.verdict == "the same"


SMALL, LESS = [-0.0041, -0.0042, -0.0040], [-0.0049, -0.0055, -0.0044]  # within the margin; significant, partly outside
LARGE = [-0.03, -0.031, -0.029]


@pytest.mark.parametrize(
    ("relation", "differences", "told"),
    [
        ("better than", LARGE, "holds"),
        ("better than", SMALL, "contradicted"),
        ("worse than", SMALL, "contradicted"),
        ("better than", LESS, "open"),
        ("worse than", LESS, "contradicted"),
        ("about", SMALL, "holds"),
        ("about", LESS, "not contradicted"),
        ("about", LARGE, "contradicted"),
        ("no better than", SMALL, "holds"),
        ("no better than", LESS, "not contradicted"),
        ("no better than", LARGE, "contradicted"),
        ("no worse than", LESS, "holds"),
    ],
)
def test_claims_follow_the_margin(relation: str, differences: list[float], told: str) -> None:
    assert relation_status(relation, from_bound(differences, 0.0), 0.005) == told


@pytest.mark.parametrize("margin", [0.0, -0.1, math.inf, math.nan])
def test_a_margin_must_be_positive(margin: float) -> None:
    with pytest.raises(ConfigError, match="suite.margin = .* must be a positive number of nats per token"):
        Suite(margin=margin)


def test_a_store_keeps_the_margin(tmp_path: Path) -> None:
    note_suite(tmp_path, "a", {"m": {"none": "baseline"}}, [], 0.3)
    note_suite(tmp_path, "b", {"n": {"none": "baseline"}}, [])
    assert read_suite_notes([tmp_path]).margins == {"a": 0.3}
    runs: list[Result] = study(-0.1)
    found = Findings.of(runs, read_suite_notes([tmp_path]))
    assert found.comparisons[0].verdict == "the same"
    remember_margins(tmp_path, found.margins)
    assert json.loads((tmp_path / SUITES).read_text())["a"]["judged_by"] == {"baseline": 0.3}
    text = markdown(found)
    assert "the smallest difference that matters: 0.3000 nats per token" in text
    assert "0.3000 nats per token" in html_report(found)


def test_a_store_from_before_there_were_margins(tmp_path: Path) -> None:
    (tmp_path / SUITES).write_text('{"a": {"arms": {"m": {"none": "baseline"}}, "twins": []}}')
    assert read_suite_notes([tmp_path]).margins == {} and read_suite_notes([tmp_path]).suites == {"m": "a"}
