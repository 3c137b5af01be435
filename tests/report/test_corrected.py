"""Verdicts of a ladder beside the same questions corrected for all methods of their size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from helpers.made_up_ladder import MadeUp, made_up_ladder
from helpers.made_up_results import study

from zoo.report.corrected import corrected, corrected_text, linked
from zoo.report.findings import Findings


def test_what_is_clear_stands_when_it_is_corrected() -> None:
    report = made_up_ladder({"v1_m4": 1.15, "v1_m3": 1.0, "wr_1": 0.9}).findings
    rows = corrected(report)
    assert {each.standing.name: each.stands for each in rows} == {"v1_m4": True, "wr_1": True}
    told = corrected_text(report)
    assert (
        "of the loss; level 0.05), 2 of the 2 decided verdicts stand at any size: v1_m4 (< 0.001), wr_1 (< 0.001)."
        in told
    )
    assert "([p (Dunnett)](tables.md) of the loss" in linked(told, "tables.md")


def test_what_many_questions_leave_open_is_named() -> None:
    """A gain that a ladder of three sizes shows and no single size does, among so many methods."""
    report = made_up_ladder({"v1_m4": 1.02, **{f"v1_m{i}": 1.0 for i in (1, 2, 3, 5, 6, 7)}}).findings
    (small,) = (each for each in corrected(report) if each.standing.name == "v1_m4")
    assert not small.stands and small.p > 0.05
    assert "none of the 1 decided verdict stands at any size: v1_m4 (0.0" in corrected_text(report)


def moved(made: MadeUp, place: str, moves: Mapping[int, float]) -> Findings:
    """The findings after the losses of one arm at one rung, such as ` 2 v1_m4`, were moved by seed."""
    results = [
        replace(run, valid_loss=run.valid_loss + moves[run.seed], test_loss=run.test_loss + moves[run.seed])
        if run.arm.endswith(place) and run.seed in moves and run.valid_loss and run.test_loss
        else run
        for run in made.results
    ]
    return Findings.of(results, made.notes)


def test_runs_that_lie_farther_apart_than_the_pool_are_said() -> None:
    """Why a ladder may decide where the table of a size does not."""
    made = made_up_ladder({"v1_m4": 1.02, **{f"v1_m{i}": 1.0 for i in (1, 2, 3, 5, 6, 7)}})
    (before,) = (each for each in corrected(made.findings) if each.standing.name == "v1_m4")
    assert before.scatter is None and "as far apart" not in corrected_text(made.findings)
    report = moved(made, " 2 v1_m4", {1: -0.005, 2: -0.005, 3: 0.0, 4: 0.005, 5: 0.005})  # the mean stays
    (after,) = (each for each in corrected(report) if each.standing.name == "v1_m4")
    assert after.scatter and after.scatter > 1.5 and not after.stands
    assert f"; its runs lie {after.scatter:.1f} × as far apart as its ladder's interval assumes)" in corrected_text(
        report
    )


def test_an_arm_with_a_noise_of_its_own_is_not_held_against_the_pool() -> None:
    made = made_up_ladder({"wr_1": 0.8, **{f"v1_m{i}": 1.0 for i in (1, 2, 3, 4, 5, 6, 7)}})
    report = moved(made, " 2 wr_1", {1: -0.06, 2: -0.03, 3: 0.0, 4: 0.03, 5: 0.06})
    (row,) = (row for row in report.ladders[0].rows if row.label == "wr_1")
    assert "wr_1" in report.ladders[0].rungs[0].own_noise and row.verdict == "hurts"
    assert all(each.scatter is None for each in corrected(report))


def test_without_a_decided_ladder_nothing_is_said() -> None:
    assert corrected_text(Findings.of(study(-0.1))) == corrected_text(Findings.of([])) == ""
