"""What a plan counts of its models: each once, and the same as without that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zoo.bench.arms import Arm, arms_of
from zoo.bench.selection import select_arms
from zoo.bench.suite import Suite
from zoo.counting import flops

BINDINGS = ["suite.hosts = ('sequential', 'parallel')", "suite.baselines = ('none', 'parameters', 'flops')"]
METHODS = ("wr_8_2", "wr_8_2(n=4)", "v1_m3", "v4_m1")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by the size of every model that is counted."""
    sizes: list[int] = []
    count = flops._training_cost

    def noted(build: flops.Build, length: int) -> flops.TrainingCost:
        cost = count(build, length)
        sizes.append(cost.parameters)
        return cost

    monkeypatch.setattr(flops, "_training_cost", noted)
    return sizes


def test_every_model_is_counted_once(counted: list[int]) -> None:
    plain_only = [BINDINGS[0], "suite.baselines = ('none',)"]
    arms, _ = select_arms(None, ["sizes/tiny"], plain_only, METHODS)
    assert len(counted) == len(arms) == 2 * (1 + len(METHODS))


def test_the_arms_are_those_of_models_counted_each_time() -> None:
    together, suite = select_arms(None, ["sizes/tiny"], BINDINGS, METHODS)
    apart: dict[str, Arm] = {}
    for host in suite.hosts:
        for name in METHODS:
            file, _, settings = name.partition("(")
            bound = [f"temporal_mixing.{file}.{settings.rstrip(')')}"] if settings else []
            for arm in arms_of(["sizes/tiny", file], [*BINDINGS, *bound], suite, host, name):
                apart.setdefault(arm.id, arm)
    assert [replace(arm, baselines={}) for arm in together] == [replace(arm, baselines={}) for arm in apart.values()]


def test_settings_of_the_model_tell_models_apart(counted: list[int]) -> None:
    counts: dict[object, object] = {}
    suite = Suite(baselines=("none",))
    shapes = [["model.depth = 2"], ["model.depth = 3"], ["model.depth = 2", "model.qk_norm = True"]]
    arms = [arms_of(["sizes/tiny"], shape, suite, "sequential", counts=counts)[0] for shape in shapes]
    again = arms_of(["sizes/tiny"], ["model.depth = 2", "train.lr = 0.5"], suite, "sequential", counts=counts)[0]
    assert len({arm.parameters for arm in arms}) == len(counted) == 3
    assert again.parameters == arms[0].parameters
