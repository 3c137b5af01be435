"""What the cards claim, and whether made-up results bear it out."""

from __future__ import annotations

import pytest
from made_up import result

from zoo import cards, claims, plugins
from zoo.errors import ZooError
from zoo.match import skeleton
from zoo.report import Report
from zoo.stats import paired
from zoo.store import Result

OURS = {found.id: found for found in plugins.find() if found.distribution == "transformer-zoo"}
IDS = set(OURS)


def told_of(id: str, runs: list[Result]) -> str:
    report = Report.of(runs)
    return claims.told(claims.checked(next(arm for arm in report.arms if arm.id == id), report))


@pytest.mark.parametrize("id", sorted(IDS))
def test_a_card_can_be_checked_against_methods_that_exist(id: str) -> None:
    for company, claim in claims.clauses(id):
        assert set(company) <= IDS - {id}
        if isinstance(claim, claims.Ends):
            assert claim.probe in cards.declared(skeleton(cards.size("tiny").build(plugins.load(OURS[id])))).probes
        else:
            assert set(claim.others) <= IDS | {"baseline", ""}
            assert company or id not in claim.others
    assert "Checked as" not in claims.claim(id)


def test_most_claims_can_be_checked() -> None:
    assert sum(bool(claims.claims(id)) for id in IDS) > 50
    assert claims.claims("v1_m3")[0] == claims.Claim("worse than", ("baseline",))
    assert claims.claims("wr_2") == [claims.Claim("diverges", ("",))]


BETTER, WORSE, OPEN = [-0.30, -0.31, -0.29], [0.30, 0.31, 0.29], [0.3, -0.3, 0.0]


@pytest.mark.parametrize(
    ("relation", "differences", "told"),
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
def test_what_an_interval_says_of_a_claim(relation: str, differences: list[float], told: str) -> None:
    found = paired([4.0 + d for d in differences], [4.0] * len(differences))
    assert claims.holds(relation, found) == told


@pytest.mark.parametrize("clause", ["nicer than baseline", "with other nicer than baseline", "gate ends near 1"])
def test_a_claim_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, clause: str) -> None:
    monkeypatch.setattr(claims, "_section", lambda id: f"Nice. Checked as: {clause}.")
    with pytest.raises(ZooError, match=f"{clause.removeprefix('with other ')}.*better than"):
        claims.claims("m")


@pytest.mark.parametrize(
    ("clause", "told"),
    [
        ("gain ends below 1", ["1 (0.80), 4 (0.50): **holds**", "2 (1.00): **open**", "3 (1.20): **contradicted**"]),
        ("gain ends above 1", ["1 (0.80), 4 (0.50): **contradicted**", "2 (1.00): **open**", "3 (1.20): **holds**"]),
        ("gain ends below 0.9 in early layers", ["1 (0.80): **holds**", "2 (1.00): **open**"]),
    ],
)
def test_a_claim_on_what_is_learned(monkeypatch: pytest.MonkeyPatch, clause: str, told: list[str]) -> None:
    monkeypatch.setattr(claims, "_section", lambda id: f"Learns. Checked as: {clause}.")
    noise = {1: -0.02, 2: 0.02, 3: 0.0}
    runs = [
        result("m", s, 3.0, probes={"gain": {"1": 0.8 + n, "2": 1 + 10 * n, "3": 1.2 + n, "4": [0.4 + n, 0.6 + n]}})
        for s, n in noise.items()
    ]
    head = clause.removesuffix(" in early layers")
    assert told_of("m", runs) == "; ".join(f"{head} in layer {each}" for each in told)
    without = [result("m", s, 3.0) for s in noise]
    assert told_of("m", without) == f"{head}: **not measured**"


def test_a_claim_on_methods_together(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = {"a": "Checked as: worse than baseline; with b better than baseline, a.", "b": "Checked as: about a."}
    monkeypatch.setattr(claims, "_section", lambda id: cards[id])
    assert claims.claims("a") == [claims.Claim("worse than", ("baseline",))]
    assert claims.claims("b") == [claims.Claim("about", ("a",))]
    assert claims.claims("a+b") == claims.claims("b+a") == [claims.Claim("better than", ("baseline", "a"))]


@pytest.mark.parametrize(
    ("lost", "relation", "told"),
    [
        (1, "better than baseline", "better than baseline: **contradicted**"),
        (1, "worse than baseline", "worse than baseline: **holds**"),
        (3, "about baseline", "about baseline: **contradicted**"),
        (1, "diverges", "diverges: **in 1 of 3 seeds**"),
        (3, "diverges", "diverges: **holds**"),
        (0, "diverges", "diverges: **not seen in 10 steps**"),
    ],
)
def test_what_diverges_is_worse(monkeypatch: pytest.MonkeyPatch, lost: int, relation: str, told: str) -> None:
    monkeypatch.setattr(claims, "_section", lambda id: f"Checked as: {relation}.")
    runs = [result("baseline", s, 3.0 + s / 10) for s in (1, 2, 3)]
    runs += [result("m", s, None if s <= lost else 2.0 + s / 10) for s in (1, 2, 3)]
    assert told_of("m", runs) == told
