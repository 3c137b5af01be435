"""Baselines that train for as long as the method: by the measured ratio of steps, or a sentence where it is not known."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from zoo.bench.arms import Arm
from zoo.bench.selection import select_arms
from zoo.bench.step_costs import FILE, StepCost, read_costs
from zoo.cli.bench import main
from zoo.errors import ZooError

SUITE = ["suite.hosts = ('sequential',)", "suite.baselines = ('none', 'time')", "train.steps = 100"]


def arms_with(methods: tuple[str, ...], **ratios: float) -> dict[str, Arm]:
    """The arms by match, where the steps of these methods take so many times as long."""
    plain_only = [*SUITE, "suite.baselines = ('none',)"]
    methods_alone = {a.name: a for a in select_arms(None, ["sizes/tiny"], plain_only, methods)[0] if a.baselines}
    costs = {methods_alone[name].id: cost(methods_alone[name], ratio) for name, ratio in ratios.items()}
    arms, _ = select_arms(None, ["sizes/tiny"], SUITE, methods, lambda: costs)
    return {arm.match if arm.match != "method" else arm.name: arm for arm in arms}


def cost(arm: Arm, ratio: float) -> StepCost:
    return StepCost(
        arm=arm.id,
        plain=arm.baselines["none"],
        name=arm.name,
        match="method",
        host=arm.host,
        rounds=[(ratio * seconds, seconds) for seconds in (0.1, 0.2, 0.3)],
        memory=None,
        threads=1,
        code={},
        settings={},
        versions={},
        measured="2026-01-01T00:00:00",
    )


def test_the_plain_block_trains_for_as_long_as_the_method() -> None:
    arms = arms_with(("wr_8_2",), wr_8_2=1.304)
    assert arms["time"].steps == 130 and arms["none"].steps == arms["wr_8_2"].steps == 100
    assert arms["time"].parameters == arms["none"].parameters
    assert arms["wr_8_2"].baselines == {"none": arms["none"].id, "time": arms["time"].id}


def test_a_step_that_takes_no_longer_shares_the_plain_block() -> None:
    arms = arms_with(("wr_8_2",), wr_8_2=1.004)
    assert arms.keys() == {"none", "wr_8_2"} and set(arms["wr_8_2"].baselines) == {"none", "time"}


def test_without_a_measurement_there_is_a_sentence() -> None:
    with pytest.raises(ZooError, match=r"wr_8_2: suite\.baselines has 'time', .* measure it first, .* --costs"):
        arms_with(("wr_8_2",))


def test_the_command_says_it_before_anything_runs_and_costs_mend_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["--gin", "sizes/tiny", "--methods", "wr_8_2", "--store", str(tmp_path), "--set", *SUITE]
    assert main([*command, "--plan"]) == 2
    assert "measure it first, with the same command and --costs" in capsys.readouterr().err

    def measured(arms: list[Arm], folder: Path, **_: object) -> list[str]:
        (method,) = [arm for arm in arms if arm.match == "method"]
        (folder / FILE).write_text(json.dumps(asdict(cost(method, 2.0))) + "\n")
        return []

    monkeypatch.setattr("zoo.bench.measure_costs.measure_costs", measured)
    monkeypatch.setattr("zoo.cli.bench._have_corpora", lambda arms: True)
    assert main([*command, "--costs"]) == 0 and read_costs(tmp_path)
    monkeypatch.setattr("zoo.cli.bench._plan", lambda arms, *_: print(*[(a.match, a.steps) for a in arms]) or 0)
    assert main([*command, "--plan"]) == 0
    assert "('time', 200)" in capsys.readouterr().out
