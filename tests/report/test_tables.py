"""The tables of a report."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from helpers.made_up_results import result, study

from zoo.report.findings import Findings
from zoo.report.report_folder import write_report
from zoo.report.tables import change_table, tables, verdict_table
from zoo.system.table import show


def test_comparison_with_an_earlier_report() -> None:
    table = change_table(Findings.of(study(-0.1)), Findings.of(study(0.1)))
    assert "worse" in table.rows[0][3] and "better" in table.rows[0][4]


def test_seeds_that_diverged_are_told(tmp_path: Path) -> None:
    results = study(-0.1)
    results[2] = result("baseline", 3, None, curve=[], training=[(5, 50, 0.5, 4.1)])
    results += [result("n", s, None, curve=[], training=[]) for s in (1, 2, 3)]
    found = Findings.of(results)
    table = verdict_table(found.comparisons)
    assert [row[:4] for row in table.rows] == [
        ("m", "3 / 2 (baseline diverged on 1)", "3.1000", "3.1500"),  # each over its own seeds
        ("n", "0 / 2 (method diverged on 3, baseline diverged on 1)", "–", "3.1500"),
    ]
    write_report(found, tmp_path)


@pytest.mark.parametrize(("columns", "told"), [(80, False), (200, True)])
def test_a_verdict_can_be_read_on_any_terminal(
    columns: int, told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show([verdict_table(Findings.of(study(-0.1)).comparisons)])
    out = capsys.readouterr().out
    assert "-0.1000" in out and "better" in out and "…" in out  # of the interval
    assert ("detectable" in out) == told and ("more columns where there is more room" in out) != told


def test_places_that_look_alike_are_told_apart() -> None:
    """The same method at another learning rate of its own: two tables, two rows beside an earlier report."""
    other = [
        dataclasses.replace(
            r, key=f"{r.key} other", arm=f"{r.arm} other", baselines=dict.fromkeys(r.baselines, "baseline other")
        )
        for r in study(0.1)
    ]
    found = Findings.of(study(-0.1) + other)
    titles = [table.title for table in tables(found) if table.title.startswith("Verdicts")]
    assert len(set(titles)) == 2 and all(title.endswith(("arm baseline", "arm baseline other")) for title in titles)
    rows = change_table(found, found).rows
    assert [row[3] == row[4] for row in rows] == [True, True] and rows[0][3] != rows[1][3]
