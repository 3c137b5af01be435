"""The rows of the first screen: one per method and host, from ladders, suites and both."""

from __future__ import annotations

import dataclasses

import pytest
from helpers.made_up_ladder import made_up_ladder
from helpers.made_up_results import result, study

from zoo.report.findings import Findings
from zoo.report.method_pages import method_pages
from zoo.report.overview import (
    MARKS,
    answers,
    control_text,
    controls,
    marks,
    marks_text,
    names_text,
    overview_table,
    parts,
    trust,
)
from zoo.report.standings import UNKNOWN, Effect, Rates, standings

KAPPAS = {"v1_m4": 1.15, "v1_m3": 1.0, "wr_1": 0.9}


def test_a_ladder_has_a_row_per_method_and_host_the_best_first() -> None:
    report = made_up_ladder(KAPPAS, ("sequential", "parallel"), times={"v1_m4": 1.05, "v1_m3": 1.0}).findings
    rows = standings(report)
    methods = [each for each in rows if each.role == "method"]
    assert [each.name for each in methods] == ["v1_m4", "v1_m4", "v1_m3", "v1_m3", "wr_1", "wr_1"]
    assert {each.host for each in methods} == {"sequential", "parallel"} and all(each.ladder for each in rows)
    assert [each.verdict for each in methods][::2] == ["helps", "the same", "hurts"]
    best = methods[0]
    assert best.effect.low < 1.15 < best.effect.high and best.effect.value == pytest.approx(1.15, abs=0.02)
    assert best.in_time.value == pytest.approx(best.effect.value / 1.05, rel=0.01)
    assert best.cost.time is not None and best.cost.time.value == pytest.approx(1.05)
    assert best.cost.parameters == pytest.approx(1.05) and best.cost.flops == 1.0
    assert [(at.rung, at.parameters, at.seeds) for at in best.sizes] == [
        (1, 100_000, 5),
        (2, 330_000, 3),
        (3, 790_000, 3),
    ]
    assert {at.verdict for at in best.sizes} <= {"helps", "helps, not in time"}
    assert [each.role for each in rows[6:8]] == ["gain", "gain"] and rows[-1].role == "harm"  # controls stand last


def test_a_suite_has_rows_of_differences_at_the_largest_size() -> None:
    larger = [
        result("m", s, 2.0 + s / 10, arm="large m", key=f"large {s}", baselines={"none": "large"}) for s in (1, 2, 3)
    ]
    larger += [
        result("baseline", s, 2.5 + s / 10, arm="large", key=f"large plain {s}", parameters=9000, flops=60000.0)
        for s in (1, 2, 3)
    ]
    (row,) = standings(Findings.of([*study(0.1), *larger]))
    assert not row.ladder and row.name == "m" and row.effect.value == pytest.approx(-0.5) and row.verdict == "better"
    assert [at.parameters for at in row.sizes] == [1000, 9000] and [at.verdict for at in row.sizes] == [
        "worse",
        "better",
    ]


def test_what_a_ladder_has_judged_no_suite_judges_again() -> None:
    """A store with both: the ladder's rows first, then the methods that no ladder has; one part for each unit."""
    made = made_up_ladder(KAPPAS)
    suite = [*study(-0.1), *(result("wr_1", s, 3.5 + s / 10) for s in (1, 2, 3))]
    report = Findings.of([*made.results, *suite], made.notes)
    rows = standings(report)
    assert [each.name for each in rows if not each.ladder] == ["m"] and not rows[-1].ladder
    assert [[each.ladder for each in of][0] for of in parts(rows)] == [True, False]
    assert [overview_table(of).head[2] for of in parts(rows)] == ["κ (95 %)", "difference (95 %)"]


def test_words_are_explained_where_they_stand() -> None:
    rows = standings(made_up_ladder(KAPPAS, ("sequential", "parallel")).findings)
    said = {answer.word: answer for answer in answers(rows)}
    assert list(said) == ["helps, not in time", "the same", "hurts"]
    assert "below 1" in said["hurts"].meaning and len(said["hurts"].standings) == 2
    assert names_text(said["hurts"].standings).startswith("wr_1 (0.9") and "parallel" in names_text(
        said["hurts"].standings
    )


def test_one_method_is_named_rather_than_counted() -> None:
    some = standings(made_up_ladder({f"m{i}": 1.1 for i in range(14)}).findings)
    methods = [each for each in some if each.role == "method"]
    assert "more" not in names_text(methods[:13]) and names_text(methods[:13]).count("(") == 13
    assert names_text(methods[:14]).endswith(" and 2 more")


def test_controls_that_fail_are_named() -> None:
    good = made_up_ladder(KAPPAS).findings.ladders
    assert [each.passed for each in controls(good[0])] == [True, True, True]
    assert "all 3 controls came out as expected." in trust(good)
    bad = made_up_ladder(KAPPAS, controls={"wr_mean": 0.9, "skip_scalar_0": 1.2}).findings.ladders
    assert "1 of 3 controls" in trust(bad) and "wr_mean: hurts" in trust(bad) and "expected it hurts" in trust(bad)
    assert "a ladder would tell" in trust(())


def test_a_method_that_did_not_train_has_no_effect() -> None:
    made = made_up_ladder({"v1_m4": 1.1, "bad": 1e-6})
    bad = next(each for each in standings(made.findings) if each.name == "bad")
    assert bad.verdict.startswith("did not train at rung 1") and bad.word == "did not train"
    (row,) = (cells for cells in overview_table([bad]).rows)
    assert row[:3] == ("bad", "did not train at rung 1", "–")


def test_many_methods_are_cut_by_their_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.report.overview.MOST_ROWS", 2)
    rows = [each for each in standings(made_up_ladder(KAPPAS).findings) if each.role == "method"]
    assert [cells[0] for cells in overview_table(rows).rows] == ["v1_m4", "wr_1"]


def test_kappa_far_from_one_and_a_noise_of_its_own_are_marked() -> None:
    """The formula of κ is of first order; an arm with wide runs has a wide interval of its own."""
    made = made_up_ladder({"v3_m2": 0.1, **{f"v1_m{i}": 1.0 for i in range(1, 7)}})
    scattered = [
        dataclasses.replace(run, test_loss=run.test_loss + 0.1 * (run.seed - 2))
        if run.name == "v1_m1" and run.test_loss is not None
        else run
        for run in made.results
    ]
    report = Findings.of(scattered, made.notes)
    found = {each.name: marks(each) for each in standings(report)}
    assert (found["v3_m2"], found["v1_m1"], found["v1_m2"], found["skip_scalar_0"]) == (" §", " ¶", "", "")
    assert f"§ {MARKS['§']}. ¶ {MARKS['¶']}." == marks_text(standings(report))
    pages = {page.name: page.parts[0].paragraphs[0] for page in method_pages(report, standings(report))}
    assert pages["v3_m2"].endswith("5, 3, 3 seeds. κ this far from 1 has the right sign, not the right size.")
    assert pages["v1_m1"].endswith("so its interval is of its own noise.") and "this far" not in pages["v1_m2"]


def test_the_control_of_tokens_shows_what_is_expected_of_it() -> None:
    """Its κ counts tokens that are charged to no one as compute saved: only κ_data is to be 1.10."""
    rows = standings(made_up_ladder(KAPPAS).findings)
    control = rows[-1]._replace(role="more tokens", verdict="helps", in_data=Effect(1.094, 1.019, 1.174))
    cell = overview_table([control]).rows[0][1]
    assert cell == "helps (control: κ_data = 1.10, measured 1.094, 95 % 1.019 … 1.174)"
    assert control_text(control._replace(in_data=UNKNOWN)) == "control: κ_data = 1.10"
    assert control_text(rows[0]) == ""


def test_a_method_with_another_rate_than_the_plain_block_was_given_no_fewer_of_them() -> None:
    """At the upper rungs of a ladder each keeps the one rate that it has chosen below."""
    assert not Rates(2.0, frozenset({2.0}), frozenset({1.0})).fewer
    assert Rates(1.0, frozenset({0.5, 1.0, 2.0}), frozenset({0.5, 1.0, 2.0, 4.0})).fewer
    assert not Rates(1.0, frozenset({0.5, 1.0, 2.0}), frozenset({1.0, 2.0})).fewer
