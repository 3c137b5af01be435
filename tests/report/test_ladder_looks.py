"""The verdicts of a ladder that is looked at as seeds are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.made_up_ladder import MadeUp, made_up_ladder

from zoo.bench.ladder_notes import LadderArm, note_arms, read_ladder_arms
from zoo.report.ladder_results import LadderFindings, LadderRow
from zoo.report.ladder_tables import kappa_table
from zoo.report.standings import standings

SLIGHT = 0.9945  # a κ that three seeds show at 5 %, and not at the first look's level


def looked_at(depths: Sequence[int], looks: Sequence[int], kappa: float = SLIGHT) -> MadeUp:
    """A ladder of these rungs, with looks at the method's three seeds at the two smallest."""
    ladder = made_up_ladder({"m": kappa})
    arms = {}
    for key, arm in ladder.notes.ladder_arms.items():
        if arm.depth in depths:
            method = arm.role == "method"
            seeds = arm.seeds[:3] if method else arm.seeds
            arms[key] = replace(arm, seeds=seeds, looks=list(looks) if method and arm.depth < 4 else [])
    noted = {(arm.arm, seed) for arm in arms.values() for seed in arm.seeds}
    results = [run for run in ladder.results if (run.arm, run.seed) in noted]
    return MadeUp(results, ladder.notes._replace(ladder_arms=arms))


def judged(ladder: MadeUp) -> tuple[LadderFindings, LadderRow]:
    (found,) = ladder.findings.ladders
    return found, next(row for row in found.rows if row.label == "m")


def test_an_early_look_asks_for_more_than_the_interval_shown() -> None:
    """The same runs: harmful by a plain 95 % interval, open at the first of three looks."""
    _, alone = judged(looked_at((2, 3), ()))
    found, early = judged(looked_at((2, 3), (3, 5, 8)))
    assert alone.compute == early.compute and alone.compute is not None
    assert alone.compute.log.interval()[1] < 0 and 0.0014 < alone.compute.log.p < 0.05
    assert (alone.verdict, alone.levels.different) == ("hurts", 0.05)
    assert early.verdict == "open" and early.levels.different == pytest.approx(0.00137, abs=1e-5)
    table = kappa_table(found)
    cells = next(dict(zip(table.head, row, strict=True)) for row in table.rows if row[0] == "m")
    assert cells["level"] == "0.0014" and float(cells["p"]) == pytest.approx(alone.compute.log.p, rel=0.1)


def test_what_is_beyond_the_bound_is_shown_at_any_look() -> None:
    assert judged(looked_at((2, 3), (3, 5, 8), kappa=0.9))[1].verdict == "hurts"
    assert judged(looked_at((2, 3), (3, 5, 8), kappa=1.2))[1].verdict == "helps, not in time"


def test_above_the_gate_the_last_look_has_been_reached() -> None:
    _, row = judged(looked_at((2, 3, 4), (3, 5, 8)))
    assert row.gate is not None and row.gate.passed and row.levels.different == pytest.approx(0.0449, abs=1e-4)
    assert row.compute is not None and row.gate.compute is not None
    assert len(row.compute.rungs) == 3 and len(row.gate.compute.rungs) == 2
    assert row.verdict == "hurts" and row.compute.log.p > 0.00137  # which the first look's level would not show


def test_controls_are_not_looked_at() -> None:
    found, _ = judged(looked_at((2, 3), (3, 5, 8)))
    assert {row.role for row in found.rows if row.gate is None} == {"other seeds", "gain", "harm"}


def test_a_rung_alone_and_the_suite_view_have_the_same_level() -> None:
    """Nowhere in a report do the three seeds of a first look get the verdict of a single test."""
    report = looked_at((2, 3), (3, 5, 8)).findings
    (standing,) = (each for each in standings(report) if each.name == "m")
    assert {at.verdict for at in standing.sizes} == {"open"}
    of_method = [c for c in report.comparisons if c.name == "m"]
    assert of_method and {round(c.levels.different, 5) for c in of_method} == {0.00137}


def test_looks_that_were_noted_are_kept(tmp_path: Path) -> None:
    """A ladder that goes on without looks was looked at all the same; notes of before have none."""
    arm = next(arm for arm in looked_at((2,), (3, 5, 8)).notes.ladder_arms.values() if arm.looks)
    note_arms(tmp_path, [arm])
    note_arms(tmp_path, [replace(arm, looks=[], seeds=[1, 2, 3, 4])])
    assert known(tmp_path) == replace(arm, seeds=[1, 2, 3, 4])
    note_arms(tmp_path, [replace(arm, looks=[], seeds=[1, 2, 3, 4])])
    assert len((tmp_path / "ladders.jsonl").read_text().splitlines()) == 2
    note_arms(tmp_path, [replace(arm, role="gain", looks=[])])
    assert known(tmp_path).looks == []


def test_notes_without_looks_are_read(tmp_path: Path) -> None:
    arm = next(iter(looked_at((2,), ()).notes.ladder_arms.values()))
    note_arms(tmp_path, [arm])
    file = tmp_path / "ladders.jsonl"
    assert '"looks": []' in file.read_text()
    file.write_text(file.read_text().replace(', "looks": []', ""))
    assert known(tmp_path) == arm
    warnings: list[str] = []
    file.write_text(file.read_text().replace("}", ', "looks": [5, 3]}'))
    assert read_ladder_arms([tmp_path], warnings.append) == {} and "growing numbers of seeds" in warnings[0]


def known(folder: Path) -> LadderArm:
    (arm,) = read_ladder_arms([folder]).values()
    return arm
