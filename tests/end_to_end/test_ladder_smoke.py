"""The ladder `ladder_smoke` as a user runs it: real training at three sizes, and controls whose outcome is known."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def zoo(command: str, *flags: str) -> str:
    """What a command prints."""
    run = subprocess.run([sys.executable, "-m", "zoo", command, *flags], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout


def row(ladder: dict[str, Any], role: str) -> dict[str, Any]:
    (only,) = (each for each in ladder["rows"] if each["role"] == role)
    return dict(only)


@pytest.mark.slow
def test_controls_come_out_as_they_must(tmp_path: Path) -> None:
    """Half an hour on two idle cores."""
    store = str(tmp_path / "bench")
    zoo("bench", "--ladder", "ladder_smoke", "--jobs", "2", "--store", store, "--set", "suite.costs = False")
    (ladder,) = json.loads(zoo("report", store, "--json"))["ladders"]
    assert [rung["depth"] for rung in ladder["rungs"]] == [2, 3, 4]

    itself = row(ladder, "other seeds")["kappa"]
    # 95 % intervals hold the truth in 95 of 100 ladders; one of twice the width always does, but for a fault.
    assert abs(math.log(itself["value"])) < math.log(itself["high"] / itself["low"])
    assert itself["high"] / itself["low"] < 1.3, "plain against plain says too little"

    more = row(ladder, "more tokens")
    assert more["data"]["low"] > 1, "10 % more tokens are not found"
    assert abs(math.log(more["data"]["value"] / 1.1)) < math.log(more["data"]["high"] / more["data"]["low"])
    assert row(ladder, "harm")["verdict"] in ("hurts", "did not train at rung 1")
    assert {each["arm"] for each in ladder["predictions"]} >= {"plain"}
    assert all(each["measured"] for each in ladder["predictions"] if each["arm"] == "plain")

    again = zoo("bench", "--ladder", "ladder_smoke", "--jobs", "2", "--store", store, "--set", "suite.costs = False")
    assert "to train" not in again
    html = (tmp_path / "bench/report.html").read_text("utf-8")
    assert "plain, other seeds" in html and "κ" in html
