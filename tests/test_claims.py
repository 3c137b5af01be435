"""What the cards claim, and whether made-up results bear it out."""

from __future__ import annotations

import pytest
from made_up import result

from zoo import cards, claims, plugins
from zoo.errors import ZooError
from zoo.match import skeleton
from zoo.report import Report
from zoo.stats import paired

OURS = {found.id: found for found in plugins.find() if found.distribution == "transformer-zoo"}
IDS = set(OURS)


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


def test_the_page() -> None:
    losses = {"baseline": 3.0, "v1_m3": 2.5, "v1_m1": 2.8, "v1_m6": 2.5, "wr_2": None, "wr_9_log": 1.0}
    runs = []
    for name, loss in losses.items():
        for seed, noise in ((1, 0.001), (2, -0.002), (3, 0.001)):
            changed = {"causal": False} if name == "wr_9_log" else {}
            noisy = None if loss is None else loss + seed / 10 + (noise if name != "v1_m6" else -noise)
            runs.append(result(name, seed, noisy, **changed))
    page = claims.results_page(Report.of(runs))
    assert "| method | claimed | against the plain block | does the claim hold? |" in page
    told = claims.checked(next(a for a in Report.of(runs).arms if a.first.name == "v1_m3"), Report.of(runs))
    assert told.startswith("worse than baseline: **contradicted**; better than v1_m1: **holds**;")
    assert "better than v1_m6: **open**" in told and "v1_m7: **not measured**" in told
    assert told in page and "diverges: **holds**" in page and "no better than baseline: **void, as it leaks**" in page
    assert "The best of Version 1, slightly worse than the baseline." in page


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
    method = Report.of(runs).arms[0]
    head = clause.removesuffix(" in early layers")
    assert claims.checked(method, Report.of(runs)) == "; ".join(f"{head} in layer {each}" for each in told)
    without = [result("m", s, 3.0) for s in noise]
    assert claims.checked(Report.of(without).arms[0], Report.of(without)) == f"{head}: **not measured**"


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
        (0, "diverges", "diverges: **contradicted**"),
    ],
)
def test_what_diverges_is_worse(monkeypatch: pytest.MonkeyPatch, lost: int, relation: str, told: str) -> None:
    monkeypatch.setattr(claims, "_section", lambda id: f"Checked as: {relation}.")
    runs = [result("baseline", s, 3.0 + s / 10) for s in (1, 2, 3)]
    runs += [result("m", s, None if s <= lost else 2.0 + s / 10) for s in (1, 2, 3)]
    report = Report.of(runs)
    assert claims.checked(next(a for a in report.arms if a.id == "m"), report) == told


def test_claims_compare_what_changes_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same methods in another size stand on their own."""
    monkeypatch.setattr(claims, "_section", lambda id: "Checked as: better than n." if id == "m" else "")
    runs = []
    for size, better in (("small", -0.3), ("large", 0.3)):
        for name, offset in (("baseline", 0.0), ("n", 0.0), ("m", better)):
            more = {"arm": f"{size} {name}", "baselines": {} if name == "baseline" else {"none": f"{size} baseline"}}
            runs += [result(name, s, 3.0 + offset + s / 1000, key=f"{size} {name} {s}", **more) for s in (1, 2, 3)]
    page = claims.results_page(Report.of(runs))
    assert page.count("better than n: **holds**") == page.count("better than n: **contradicted**") == 1
