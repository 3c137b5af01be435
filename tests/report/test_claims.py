"""What the cards claim, and whether made-up results bear it out."""

from __future__ import annotations

import dataclasses
import functools
import random
import re
from pathlib import Path

import pytest
from helpers.made_up_ladder import made_up_ladder
from helpers.made_up_results import result, study

from zoo.bench.store import Result
from zoo.catalogue import scaffold
from zoo.catalogue.cards import parse_card
from zoo.catalogue.describe import declared
from zoo.catalogue.sizes import size
from zoo.counting.flops import skeleton
from zoo.errors import ZooError
from zoo.plugins.finder import find_methods
from zoo.plugins.loader import load_method
from zoo.plugins.settings import settings_of
from zoo.report import claim_outcomes, claims
from zoo.report.claim_outcomes import ClaimChecker, outcome_text
from zoo.report.findings import Findings
from zoo.slots import SLOTS
from zoo.statistics.difference import from_bound
from zoo.statistics.looks import Levels

OURS = {found.id: found for found in find_methods() if found.distribution == "transformer-zoo"}
IDS = set(OURS)


def outcomes(id: str, runs: list[Result]) -> str:
    report = Findings.of(runs)
    return outcome_text(ClaimChecker(report).outcomes(next(arm for arm in report.arms if arm.id == id)))


def claim_on_every_card(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(claims, "card_named", lambda id: parse_card(f"# {id} — a method\n\n## Claimed\n{text}\n"))


@pytest.mark.parametrize("id", sorted(IDS))
def test_a_card_can_be_checked_against_methods_that_exist(id: str) -> None:
    method = load_method(OURS[id])
    for partners, claim in claims.clauses(id):
        assert set(partners) <= IDS - {id}
        assert {name for name, _ in claim.conditions.settings} <= {each.name for each in settings_of(method.factory)}
        if isinstance(claim, claims.ProbeClaim):
            build = functools.partial(size("tiny").build(method), parallel=claim.conditions.host == "parallel")
            assert claim.probe in declared(skeleton(build)).probes
        else:
            assert {other for each in claim.others for other in each.split("+")} <= IDS | {"baseline", ""}
            assert partners or id not in claim.others
    assert "Checked as" not in claims.claim_text(id)


def test_most_claims_can_be_checked() -> None:
    assert sum(bool(claims.clauses(id)) for id in IDS) > 50
    sequential, parallel = claims.Conditions("sequential"), claims.Conditions("parallel")
    assert claims.claims("v1_m3")[0] == claims.Claim("worse than", ("baseline",), conditions=sequential)
    assert claims.claims("wr_2") == [
        claims.Claim("worse than", ("wr_1",), conditions=parallel),
        claims.Claim("diverges", ("",), conditions=parallel._replace(least_steps=3000)),
    ]
    assert claims.claims("v3_m1")[1:] == [
        claims.Claim("better than", ("baseline",), "accuracy", sequential),
        claims.Claim("slower than", ("baseline",), "evaluation", sequential),
    ]
    early, *_, normed = claims.claims("wr_7_log")
    assert early.conditions == parallel._replace(settings=(("norm", "False"),), most_steps=600)
    assert normed.conditions == parallel._replace(settings=(("norm", "True"),))


BETTER, WORSE, OPEN = [-0.30, -0.31, -0.29], [0.30, 0.31, 0.29], [0.3, -0.3, 0.0]


@pytest.mark.parametrize(
    ("relation", "differences", "status"),
    [
        ("better than", BETTER, "holds"),
        ("better than", WORSE, "contradicted"),
        ("better than", OPEN, "open"),
        ("worse than", WORSE, "holds"),
        ("worse than", BETTER, "contradicted"),
        ("about", OPEN, "not contradicted"),
        ("about", BETTER, "contradicted"),
        ("no better than", BETTER, "contradicted"),
        ("no better than", OPEN, "not contradicted"),
        ("no better than", WORSE, "holds"),
        ("no worse than", WORSE, "contradicted"),
        ("no worse than", BETTER, "holds"),
        ("better than", BETTER[:1], "open"),
    ],
)
def test_what_an_interval_says_of_a_claim(relation: str, differences: list[float], status: str) -> None:
    difference = from_bound([4.0 + d for d in differences], 4.0)
    assert claim_outcomes.relation_status(relation, difference) == status


def test_a_claim_is_judged_at_the_level_of_the_look() -> None:
    """At an early look an interval of 95 % says more than the verdict may."""
    difference = from_bound([4.30, 4.31, 4.29], 4.27)
    assert claim_outcomes.relation_status("worse than", difference) == "holds"
    assert claim_outcomes.relation_status("worse than", difference, levels=Levels(0.0014)) == "open"


@pytest.mark.parametrize(
    ("clause", "status"),
    [("worse than baseline", "open"), ("better than baseline", "open"), ("about baseline", "not contradicted")],
)
def test_a_claim_on_the_plain_block_is_open_where_the_verdict_is(
    monkeypatch: pytest.MonkeyPatch, clause: str, status: str
) -> None:
    """A difference beyond its own interval that is one of many questions."""
    claim_on_every_card(monkeypatch, f"Checked as: {clause}.")
    noise = random.Random(3)
    names = ["baseline", *(f"m{i}" for i in range(30)), "m"]
    runs = [result(name, s, 3.0 + 0.03 * (name == "m") + noise.gauss(0, 0.01)) for name in names for s in (1, 2, 3)]
    (verdict,) = (c for c in Findings.of(runs).comparisons if c.method.id == "m")
    assert verdict.verdict == "open" and verdict.difference.low > 0
    assert outcomes("m", runs) == f"{clause}: **{status}**"


def test_a_claim_on_a_ladder_follows_its_verdict() -> None:
    """v3_m2 scatters so much that its ladder leaves it open; its card claims that it is better."""
    made = made_up_ladder({"v3_m2": 0.5, **{f"v1_m{i}": 1.0 for i in range(1, 7)}})
    noisy = [
        dataclasses.replace(run, test_loss=run.test_loss + 0.4 * (run.seed - 2)) if run.name == "v3_m2" else run
        for run in made.results
        if run.test_loss is not None
    ]
    for results, verdict, status in ((made.results, "hurts", "contradicted"), (noisy, "open", "open")):
        report = Findings.of(results, made.notes)
        checker = ClaimChecker(report)
        (row,) = (row for row in report.ladders[0].rows if row.label == "v3_m2")
        found = [checker.outcomes(arm)[0] for arm in report.arms if arm.first.name == "v3_m2"]
        assert row.verdict == verdict and {outcome[:3] for outcome in found} == {("better than", "baseline", status)}


@pytest.mark.parametrize(
    "clause",
    ["nicer than baseline", "with other nicer than baseline", "gate ends near 1", "evaluation better than baseline"],
)
def test_a_claim_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, clause: str) -> None:
    claim_on_every_card(monkeypatch, f"Nice. Checked as: {clause}.")
    with pytest.raises(ZooError, match=f"{clause.removeprefix('with other ')}.*better than"):
        claims.claims("m")


@pytest.mark.parametrize(
    ("clause", "layers"),
    [
        ("gain ends below 1", ["1 (0.80), 4 (0.50): **holds**", "2 (1.00): **open**", "3 (1.20): **contradicted**"]),
        ("gain ends above 1", ["1 (0.80), 4 (0.50): **contradicted**", "2 (1.00): **open**", "3 (1.20): **holds**"]),
        ("gain ends below 0.9 in early layers", ["1 (0.80): **holds**", "2 (1.00): **open**"]),
        ("gain ends below 0.9 in late layers", ["3 (1.20): **contradicted**", "4 (0.50): **holds**"]),
    ],
)
def test_a_claim_on_what_is_learned(monkeypatch: pytest.MonkeyPatch, clause: str, layers: list[str]) -> None:
    claim_on_every_card(monkeypatch, f"Learns. Checked as: {clause}.")
    noise = {1: -0.02, 2: 0.02, 3: 0.0}
    runs = [
        result("m", s, 3.0, probes={"gain": {"1": 0.8 + n, "2": 1 + 10 * n, "3": 1.2 + n, "4": [0.4 + n, 0.6 + n]}})
        for s, n in noise.items()
    ]
    head = clause.removesuffix(" in early layers").removesuffix(" in late layers")
    assert outcomes("m", runs) == "; ".join(f"{head} in layer {each}" for each in layers)
    without = [result("m", s, 3.0) for s in noise]
    assert outcomes("m", without) == f"{head}: **not measured**"


@pytest.mark.parametrize(
    ("head", "clause", "status"),
    [
        (" in the parallel host", "better than baseline", "claimed of the parallel host only"),
        (" in the sequential host", "better than baseline", "holds"),
        ("", "better than baseline at n = 2", "holds"),
        ("", "better than baseline at n = 2 and norm = True", "holds"),
        ("", "better than baseline at n = 4", "not measured at n = 4"),
        ("", "better than baseline at other = 2", "not measured at other = 2"),
        ("", "better than baseline after 10 steps", "holds"),
        ("", "better than baseline after 1000 steps", "too short, 10 of 1,000 steps"),
        ("", "better than baseline within 9 steps", "too long, 10 steps where 9 are meant"),
        ("", "better than baseline at n = 2 within 10 steps", "holds"),
        ("", "gate ends below 1 at n = 4", "not measured at n = 4"),
    ],
)
def test_a_claim_is_checked_at_its_own_setting(
    monkeypatch: pytest.MonkeyPatch, head: str, clause: str, status: str
) -> None:
    claim_on_every_card(monkeypatch, f"Checked{head} as: {clause}.")
    settings = {"temporal_mixing.m.n": "2", "temporal_mixing.m.norm": "True", "temporal_mixing.mm.n": "4"}
    body = re.split(" at | after | within ", clause)[0]
    assert outcomes("m", study(-0.3, settings=settings)) == f"{body}: **{status}**"


def test_what_diverged_early_has_diverged(monkeypatch: pytest.MonkeyPatch) -> None:
    claim_on_every_card(monkeypatch, "Checked as: diverges after 1000 steps.")
    plain = [result("baseline", s, 3.0) for s in (1, 2)]
    assert outcomes("m", plain + [result("m", s, None) for s in (1, 2)]) == "diverges: **holds**"
    assert outcomes("m", plain + [result("m", s, 3.0) for s in (1, 2)]) == "diverges: **too short, 10 of 1,000 steps**"


def test_a_combination_is_checked_at_the_setting_of_the_card_that_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = {"m": "Checked as: with b better than baseline at n = 2.", "b": "Checked as: diverges."}
    monkeypatch.setattr(claims, "card_named", lambda id: parse_card(f"# {id} — x\n\n## Claimed\n{cards[id]}\n"))
    plain = [result("baseline", s, 3.0 + s / 10) for s in (1, 2, 3)]
    for n, status in (("2", "holds"), ("4", "not measured at n = 2")):
        settings = {"temporal_mixing.b.n": "7", "residual.m.n": n}
        runs = [result("b+m", s, 2.5 + s / 10 + s / 1000, settings=settings) for s in (1, 2, 3)]
        assert outcomes("b+m", plain + runs) == f"better than baseline: **{status}**"


@pytest.mark.parametrize(
    ("clause", "accuracy", "status"),
    [
        ("accuracy better than baseline", 0.15, "holds"),
        ("accuracy better than baseline", 0.05, "contradicted"),
        ("accuracy worse than baseline", 0.05, "holds"),
        ("accuracy about baseline", 0.1, "holds"),
        ("evaluation slower than baseline", 0.1, "not measured"),
    ],
)
def test_a_claim_on_accuracy(monkeypatch: pytest.MonkeyPatch, clause: str, accuracy: float, status: str) -> None:
    claim_on_every_card(monkeypatch, f"Checked as: {clause}.")
    plain = [result("baseline", s, 3.0 + s / 10) for s in (1, 2, 3)]
    runs = plain + [result("m", s, 2.9 + s / 10, accuracy=accuracy + s / 1e5) for s in (1, 2, 3)]
    assert outcomes("m", runs) == f"{clause}: **{status}**"


def test_a_claim_on_methods_together(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = {"a": "Checked as: worse than baseline; with b better than baseline, a.", "b": "Checked as: about a."}
    monkeypatch.setattr(claims, "card_named", lambda id: parse_card(f"# {id} — x\n\n## Claimed\n{cards[id]}\n"))
    assert claims.claims("a") == [claims.Claim("worse than", ("baseline",))]
    assert claims.claims("b") == [claims.Claim("about", ("a",))]
    assert claims.claims("a+b") == claims.claims("b+a") == [claims.Claim("better than", ("baseline", "a"))]


@pytest.mark.parametrize(
    ("lost", "relation", "text"),
    [
        (1, "better than baseline", "better than baseline: **contradicted**"),
        (1, "worse than baseline", "worse than baseline: **holds**"),
        (3, "about baseline", "about baseline: **contradicted**"),
        (1, "diverges", "diverges: **in 1 of 3 seeds**"),
        (3, "diverges", "diverges: **holds**"),
        (0, "diverges", "diverges: **not seen in 10 steps**"),
    ],
)
def test_what_diverges_is_worse(monkeypatch: pytest.MonkeyPatch, lost: int, relation: str, text: str) -> None:
    claim_on_every_card(monkeypatch, f"Checked as: {relation}.")
    runs = [result("baseline", s, 3.0 + s / 10) for s in (1, 2, 3)]
    runs += [result("m", s, None if s <= lost else 2.0 + s / 10) for s in (1, 2, 3)]
    assert outcomes("m", runs) == text


def test_a_probe_that_was_not_finite_is_not_measured() -> None:
    probes = {"gate": {"1": None, "2": [0.5, None], "3": 0.5}}
    report = Findings.of(
        [result("baseline", s, 3.0 + s / 10) for s in (1, 2)]
        + [result("m", s, 2.0 + s / 10, probes=probes) for s in (1, 2)]
    )
    method = next(arm for arm in report.arms if arm.id == "m")
    found = claim_outcomes.probe_outcomes(method, claims.ProbeClaim("gate", "below", 0.9))
    assert [(outcome[1], outcome[2] == "not measured") for outcome in found] == [
        ("1 (not finite)", True),
        ("2 (not finite)", True),
        ("3 (0.50)", False),
    ]


def test_a_card_that_nobody_has_written_claims_nothing() -> None:
    templates = list(Path(scaffold.__file__).parent.glob("*/card.md.in"))
    assert len(templates) == len(SLOTS)
    for template in templates:
        card = parse_card(template.read_text("utf-8"))
        assert "Claimed" in card.sections and not card.claim and not card.checks
