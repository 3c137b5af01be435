"""Figures of tasks in a report: joined to arms by run, paired by seed and item, in tables and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from helpers.made_up_results import study

from zoo.bench.store import FILE
from zoo.cli.report import main
from zoo.evaluation.outcomes import Measure, Outcome, write_outcome
from zoo.report.downstream import downstream
from zoo.report.verdicts import compare
from zoo.statistics.crossed import crossed_difference

SCORES = {"m": (0.4, 0.5, 0.8), "baseline": (2.4, 3.5, 4.8)}  # by item; a seed adds its own
SHIFT = {1: 0.01, 2: 0.02, 3: -0.01}


def outcomes(weights: tuple[float, ...] = (2.0, 3.0, 4.0), seeds: tuple[int, ...] = (1, 2, 3)) -> list[Outcome]:
    return [
        Outcome(
            run=f"{name}-{seed}-1.0",
            name=name,
            seed=seed,
            task="lambada",
            kind="cloze",
            identity="i",
            step=10,
            measures={
                "loss": Measure("lower", tuple(score + SHIFT[seed] * (name == "m") for score in scores), weights),
                "accuracy": Measure("higher", (1.0, 0.0, 1.0)),
            },
        )
        for name, scores in SCORES.items()
        for seed in seeds
    ]


def test_a_method_is_paired_with_its_baseline() -> None:
    loss, accuracy = downstream(compare(study(-0.1)), outcomes())
    rows = [[a + SHIFT[seed] - b for a, b in zip(SCORES["m"], SCORES["baseline"], strict=True)] for seed in (1, 2, 3)]
    assert loss.difference == crossed_difference(rows, (2.0, 3.0, 4.0))
    assert loss.means[0] - loss.means[1] == pytest.approx(loss.difference.mean)
    assert (loss.task, loss.items, loss.measure, loss.verdict) == ("lambada", 3, "loss", "better")
    assert (accuracy.difference.mean, accuracy.verdict) == (0.0, "open")


def test_what_only_one_side_was_evaluated_on_is_left_out() -> None:
    of_method = [each for each in outcomes() if each.name == "m"]
    assert downstream(compare(study(-0.1)), of_method) == []
    assert downstream(compare(study(-0.1)), []) == []
    apart = [each for each in outcomes() if (each.name == "m") == (each.seed == 1)]  # no seed in common
    assert downstream(compare(study(-0.1)), apart) == []


def test_the_report_has_the_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / FILE).open("w") as file:
        for each in study(-0.1):
            file.write(json.dumps(asdict(each)) + "\n")
    assert main([str(tmp_path)]) == 0
    assert "Downstream" not in capsys.readouterr().out
    for outcome in outcomes():
        write_outcome(tmp_path, outcome)
    assert main([str(tmp_path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(each["task"], each["figure"], each["outcome"]) for each in printed["downstream"]] == [
        ("lambada", "loss", "better"),
        ("lambada", "accuracy", "open"),
    ]
    (verdict,) = printed["comparisons"]
    assert (
        verdict["method"] == "m" and verdict["seeds"] == 3 and verdict["low"] < verdict["difference"] < verdict["high"]
    )
    assert {arm["name"]: arm["losses"]["1"] for arm in printed["arms"]} == pytest.approx({"m": 3.001, "baseline": 3.1})
    page = (tmp_path / "report.md").read_text()
    assert "## Downstream: tasks of zoo-eval" in page and "| m | lambada | loss (lower is better) |" in page
