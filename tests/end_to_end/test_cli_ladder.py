"""`zoo-bench --ladder`: what it plans, runs and says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.pretend_bench import PretendLauncher
from helpers.pretend_ladder import LADDER, SETTINGS, LadderLauncher

from zoo.bench import forecast
from zoo.bench.arms import Arm
from zoo.bench.ladder_plan import LadderPlan
from zoo.bench.store import Store
from zoo.cli import kit_gate, report as report_command
from zoo.cli.bench import main
from zoo.testing.report import Report, Result

KAPPAS = {"wr_mean": 1.3, "skip_scalar_0": 0.4, "v1_m3": 1.2}


@pytest.fixture
def command(tmp_path: Path, launcher: PretendLauncher, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A small ladder whose runs only pretend, and whose kit says yes."""
    (tmp_path / "small.gin").write_text(LADDER)
    pretending = LadderLauncher(KAPPAS)
    monkeypatch.setattr("zoo.bench.launch.LocalLauncher", lambda *_: pretending)
    monkeypatch.setattr("zoo.cli.kit_gate._broken", lambda arm, name: [])

    def pace(arm: Arm, threads: int) -> forecast.Pace:
        return forecast.Pace(start=10.0, step=1.0, low=0.5, high=2.0)

    monkeypatch.setattr(forecast, "pace", pace)
    return ["--gin", "v1_m3", "--store", str(tmp_path / "bench"), "--set", *SETTINGS]


def test_plan_run_and_report(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ladder = ["--ladder", str(tmp_path / "small.gin")]
    assert main([*ladder, *command, "--plan"]) == 0
    plan = capsys.readouterr().out
    assert not (tmp_path / "bench").exists()
    for line in (
        "| 1 | 1 | 8 | 768 |",
        "| 3 | v1_m3 | method |",
        "N = 12 · width² · depth",
        "in total, one run at a time",
    ):
        assert line in plan
    assert "before the top rung is run, its losses are predicted" in plan

    assert main([*ladder, *command]) == 0
    out = capsys.readouterr().out
    assert "registered: v1_m3 at the top rung should come to" in out
    assert "## Compute multipliers, ladder small" in out and "| helps, not in time |" in out
    assert "## Predictions of the top rung" in (tmp_path / "bench/report.md").read_text()

    assert main([*ladder, *command]) == 0  # again: nothing to run, the same report
    assert "to train" not in capsys.readouterr().out
    assert report_command.main([str(tmp_path / "bench")]) == 0
    assert "## κ by rung, ladder small" in capsys.readouterr().out
    assert report_command.main([str(tmp_path / "bench"), "--json"]) == 0
    (as_data,) = json.loads(capsys.readouterr().out)["ladders"]
    rows = {row["arm"]: row for row in as_data["rows"]}
    kappa = rows["v1_m3"]["kappa"]
    assert kappa["low"] < kappa["value"] < kappa["high"] and kappa["value"] == pytest.approx(1.2, rel=0.05)
    assert rows["v1_m3"]["verdict"] == "helps, not in time" and rows["v1_m3"]["time"] is None
    assert [at["rung"] for at in rows["v1_m3"]["by_rung"]] == [1, 2, 3]
    assert {each["arm"] for each in as_data["predictions"]} >= {"plain", "v1_m3"}


def test_costs_alone_train_nothing(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[list[str]] = []

    def measure(arms: list[Arm], folder: Path, **_: object) -> list[str]:
        measured.append([arm.name for arm in arms])
        return ["wr_mean cannot be timed"] if len(measured) == 1 else []

    monkeypatch.setattr("zoo.bench.measure_costs.measure_costs", measure)
    assert main(["--ladder", str(tmp_path / "small.gin"), *command, "--costs"]) == 1  # as one of them failed
    assert len(measured) == 3 and all(
        len(arms) == 4 for arms in measured
    )  # at every rung: plain, two controls, the method
    assert not Store(tmp_path / "bench").read()


def test_a_suite_that_binds_rungs_is_a_ladder(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--suite", str(tmp_path / "small.gin"), *command, "--plan"]) == 0
    assert "## Rungs of small" in capsys.readouterr().out


def test_a_method_that_fails_the_kit_is_not_trained(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def broken(arm: Arm, name: str) -> list[str]:
        asked.append(name)
        return ["causal"] if name == "residual.v1_m3" else []

    monkeypatch.setattr("zoo.cli.kit_gate._broken", broken)
    ladder = ["--ladder", str(tmp_path / "small.gin"), *command, "ladder.depths = (1, 2)", "ladder.seeds = (2, 2)"]
    assert main(ladder) == 1
    out = capsys.readouterr().out
    assert "v1_m3 is not trained: it fails the kit (causal); zoo-plugins check residual.v1_m3 says why" in out
    assert "v1_m3 (method" not in out and "wr_mean (method" in out
    assert len(asked) == 3
    assert main(ladder) == 1
    assert asked[3:] == ["residual.v1_m3"]  # what passed is not asked again


def test_the_kit_is_asked_with_the_settings_of_the_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.bench.ladder_plan import plan_ladder

    seen: list[tuple[str, str, dict[str, object]]] = []

    def check(id: str, slot: str, settings: dict[str, object]) -> Report:
        seen.append((slot, id, settings))
        result = Result("causal", "", "failed" if settings.get("n") == 3 else "ok", "", seconds=0.0)
        return Report(id, slot, "", (result,), None, ())

    monkeypatch.setattr("zoo.testing.check", check)
    (tmp_path / "small.gin").write_text(LADDER)
    plan: LadderPlan = plan_ladder(str(tmp_path / "small.gin"), ["wr_8_2"], [*SETTINGS, "temporal_mixing.wr_8_2.n = 3"])
    rest, failures = kit_gate.check_methods(plan, tmp_path, print)
    assert [each[1] for each in seen] == ["wr_mean", "skip_scalar_0", "wr_8_2"] and seen[-1][2]["n"] == 3
    assert len(failures) == 1 and "wr_8_2 is not trained" in failures[0]
    assert {member.label for member in rest.rungs[0].members} == {
        *("plain", "plain, other seeds", "plain, 10 % more tokens", "plain × 0.5", "plain × 2"),
        *("wr_mean", "skip_scalar_0"),
    }


def test_methods_of_an_earlier_command_that_lack_a_rate_are_named_with_what_catches_them_up(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second command's method is best at four times its rate: the plain block is tried there too, the first method is not."""
    pretending = LadderLauncher(KAPPAS, best_rates={"v1_m4": 2.0})
    monkeypatch.setattr("zoo.bench.launch.LocalLauncher", lambda *_: pretending)
    rates = ["suite.lrs = (0.5, 1.0, 2.0)", "suite.widenings = 3"]
    whole = ["--ladder", str(tmp_path / "small.gin"), *command[2:], *rates]
    sentence = "given fewer learning rates than the plain block at one of the two smallest rungs: v1_m3; the same"
    assert main([*whole, "--methods", "v1_m3"]) == 0
    assert "given fewer learning rates" not in capsys.readouterr().out
    assert main([*whole, "--methods", "v1_m4"]) == 0
    out = capsys.readouterr().out
    assert f"{sentence} command with --methods v1_m3,v1_m4 in place of" in out
    assert main([*whole, "--methods", "v1_m3,v1_m4"]) == 0
    assert "given fewer learning rates" not in capsys.readouterr().out
