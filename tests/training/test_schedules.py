"""WSD and WSD-S: the rate by the step alone, budgets out of one run, and resuming in every phase."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_training import BATCH, LENGTH, config, go, outcome, read_rows

from zoo.errors import ConfigError
from zoo.runs.summary import read_summary
from zoo.training.schedules import learning_rate, periods
from zoo.training.settings import Settings


def rates(steps: int, **settings: Any) -> list[float]:
    made = Settings(lr=1.0, **settings)
    return [learning_rate(step, steps, made) for step in range(1, steps + 1)]


def test_wsd_is_constant_and_falls_to_zero_over_the_last_tenth() -> None:
    factors = rates(100, schedule="wsd", warmup=0.05)
    assert factors[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert factors[4:90] == [1.0] * 86
    assert factors[90:] == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0])


def test_wsd_s_falls_at_the_end_of_every_period_and_goes_on_at_the_full_rate() -> None:
    factors = rates(800, schedule="wsd_s", warmup=0.0)
    expected = []
    for length in (100, 100, 200, 400):  # ½, 1, 2 and 4 of a base of 200
        down = length // 10
        expected += [1.0] * (length - down) + [1 - (i + 1) / down for i in range(down)]
    assert factors == pytest.approx(expected)


def test_the_last_budget_is_the_whole_run() -> None:
    made = Settings(schedule="wsd_s", budgets=(1.0, 3.0))
    assert [(p.multiple, p.start, p.end) for p in periods(30, made)] == [(1.0, 0, 10), (3.0, 10, 30)]
    assert [p.end for p in periods(30, Settings())] == [30]


@pytest.mark.parametrize(
    ("settings", "steps", "sentence"),
    [
        ({"schedule": "wsd_s"}, 8, r"the period that ends at step 1 of 8 has fewer than 2 steps"),
        ({"schedule": "wsd_s", "warmup": 0.2}, 100, r"takes 20 of 100 steps, and the first decay .* after step 11"),
        ({"schedule": "wsd", "warmup": 0.95}, 100, r"train\.warmup = 0\.95"),
        ({"schedule": "wsd_s", "patience": 2}, 100, r"train\.patience = 2 must be 0"),
        ({"budgets": (2.0, 1.0)}, 100, r"train\.budgets = \(2\.0, 1\.0\) must be numbers above 0"),
        ({"budgets": ()}, 100, r"train\.budgets = \(\)"),
        ({"decay": 0.0}, 100, r"train\.decay = 0\.0"),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(settings: dict[str, Any], steps: int, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Settings(steps=steps, **settings).num_steps(1)


SHORT = {"steps": 32, "schedule": "wsd_s", "warmup": 0.05, "save_every": 1, "decay": 0.5, "validate_every": 9}


def test_the_loss_at_the_end_of_every_period_is_in_the_summary(tmp_path: Path) -> None:
    summary = go(config(tmp_path, **SHORT), tmp_path / "run")
    rows = {row["step"]: row for row in read_rows(tmp_path / "run", "valid")}
    assert [budget["step"] for budget in summary.budgets] == [4, 8, 16, 32]
    assert [budget["multiple"] for budget in summary.budgets] == [0.5, 1.0, 2.0, 4.0]
    for budget in summary.budgets:
        assert budget["tokens"] == budget["step"] * BATCH * LENGTH
        for name in ("loss", "accuracy", "bits_per_byte"):
            assert budget[name] == rows[budget["step"]][name]
    assert summary.budgets[-1]["loss"] == summary.valid_loss
    assert read_summary(tmp_path / "run") == summary
    assert sorted(rows) == [4, 8, 9, 16, 18, 27, 32]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_it_resumes_bit_for_bit_in_every_phase(tmp_path: Path, optimizer: str) -> None:
    class Killed(BaseException):
        pass

    go(config(tmp_path, **SHORT, optimizer=optimizer), tmp_path / "whole")
    for batch in (2, 4, 5, 8, 9, 14, 17, 25, 32):  # warm-up, decays, their last steps, the steps after them

        def dying(number: int, batch: int = batch) -> None:
            if number == batch:
                raise Killed

        with pytest.raises(Killed):
            go(config(tmp_path, before=dying, **SHORT, optimizer=optimizer), tmp_path / "broken")
    go(config(tmp_path, **SHORT, optimizer=optimizer), tmp_path / "broken")
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")
    written = json.loads((tmp_path / "broken/summary.json").read_text())
    assert len(written["budgets"]) == 4
