"""A report as data: whatever the tables of a ladder show is in it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from helpers.made_up_ladder import made_up_ladder

from zoo.report.as_json import as_dict
from zoo.report.findings import Findings

METHOD = "v1_m4"


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    """A ladder with a method that is more accurate than the plain block, and was timed."""
    made = made_up_ladder({METHOD: 1.15, "v1_m3": 1.0}, times={METHOD: 1.25})
    runs = []
    for run in made.results:
        noise = (run.seed % 3 - 1) / 10_000
        runs.append(
            dataclasses.replace(run, accuracy=0.1 + 0.02 * (run.name == METHOD) + noise, bits_per_byte=1 + noise)
        )
    whole: dict[str, Any] = json.loads(json.dumps(as_dict(Findings.of(runs, made.notes)), allow_nan=False))
    return whole


def test_a_row_of_a_ladder_has_what_it_was_judged_by(data: dict[str, Any]) -> None:
    (ladder,) = data["ladders"]
    row = next(each for each in ladder["rows"] if each["arm"] == METHOD)
    assert ladder["margin"] == 0.02 and row["level"] == 0.05 and row["p"] < 0.001
    assert row["trend"]["low"] < 0 < row["trend"]["high"]
    assert row["kappa_at_100_times_the_top"]["low"] < 1.15 < row["kappa_at_100_times_the_top"]["high"]
    assert row["costs"]["time"] == {"value": 1.25, "low": 1.25, "high": 1.25} and row["costs"]["state"] is None
    assert row["costs"]["parameters"] == pytest.approx(1.05)
    assert [at["accuracy"]["value"] for at in row["by_rung"]] == pytest.approx([0.02] * 3, abs=1e-3)
    assert all(at["bits_per_byte"]["low"] < 0 < at["bits_per_byte"]["high"] for at in row["by_rung"])
    assert all(at["difference"]["high"] < 0 and at["time"]["value"] < at["kappa"]["value"] for at in row["by_rung"])


def test_what_was_not_measured_is_null(data: dict[str, Any]) -> None:
    (ladder,) = data["ladders"]
    rows = {row["arm"]: row for row in ladder["rows"]}
    assert rows["v1_m3"]["costs"]["time"] is None and rows["v1_m3"]["time"] is None
    assert rows["plain, other seeds"]["by_rung"][0]["accuracy"] is None  # the plain block has none to itself
    assert ladder["rungs"][0]["noise"] > 0 and ladder["rungs"][0]["loss_per_e_fold_of_tokens"] is None


def test_a_comparison_has_accuracy_and_its_level(data: dict[str, Any]) -> None:
    of_method = [each for each in data["comparisons"] if each["method"] == METHOD]
    assert len(of_method) == 3 and all(each["level"] == 0.05 for each in of_method)
    assert all(each["accuracy"]["low"] > 0 for each in of_method)
