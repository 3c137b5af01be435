"""Ladders as Gin files: what is refused before anything runs, and what the rule makes of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.pretend_ladder import LADDER, SETTINGS

from zoo.bench.arms import Job
from zoo.bench.ladder import Ladder
from zoo.bench.ladder_plan import plan_ladder, rung_bindings
from zoo.cli.bench import main
from zoo.config.load import load_config
from zoo.errors import ConfigError
from zoo.scaling.size_law import recipe


@pytest.fixture
def ladder(tmp_path: Path) -> str:
    file = tmp_path / "small.gin"
    file.write_text(LADDER)
    return str(file)


GOOD = {"depths": (1, 2, 3), "seeds": (3, 3, 2), "gain": "wr_mean", "harm": "skip_scalar_0"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"depths": (2,)}, "has one rung: a ladder compares sizes"),
        ({"depths": ()}, "has no rung"),
        ({"depths": (3, 2, 1)}, "are out of order: name every rung once, from the smallest"),
        ({"depths": (1, 2, 2)}, "are out of order"),
        ({"depths": (0, 1, 2)}, "must be at least 1"),
        ({"seeds": (3, 3)}, "must have one number per rung, and ladder.depths has 3"),
        ({"seeds": (3, 0, 2)}, "rung 2 must have 1 to 99 seeds, which the method and the plain block have in common"),
        ({"seeds": (1, 1, 1)}, "nothing says how large the noise is"),
        ({"looks": (3, 3)}, "each larger than the one before"),
        ({"margin": 0.0}, "ladder.margin = 0 must be above 0"),
        ({"margin": float("nan")}, "ladder.margin = nan must be above 0"),
        ({"budgets": (0.0, 1.0)}, "must be multiples of a rung's tokens, above 0"),
        ({"tokens_per_parameter": 0.0}, "must be above 0"),
        ({"most_rows": 0}, "must be at least 1"),
        ({"gain": ""}, "ladder.gain must name a method whose gain is published"),
        ({"harm": ""}, "ladder.harm must name a method whose harm is known"),
    ],
)
def test_bad_ladders_get_a_sentence(changed: dict[str, Any], expected: str) -> None:
    Ladder(**GOOD)  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as error:
        Ladder(**{**GOOD, **changed})
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        ("ladder.depths = (3, 2, 1)", "are out of order"),
        ("train.steps = 5", "train.steps follows from the rung: bind ladder.depths"),
        ("train.seed = 3", "a ladder gives its runs the seeds 1, 2, …"),
        ("model.parallel = True", "bind suite.hosts in place of model.parallel"),
        ("model.residual = @residual.v1_m3", "v1_m3 would stand in the plain block too"),
        ('suite.baselines = ("parameters",)', 'suite.baselines of a ladder must have "none"'),
    ],
)
def test_the_command_refuses_before_anything_runs(
    binding: str, expected: str, ladder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: list[str]
) -> None:
    store = tmp_path / "bench"
    assert main(["--ladder", ladder, "--gin", "v1_m3", "--store", str(store), "--set", *SETTINGS, binding]) == 2
    error = capsys.readouterr().err
    assert expected in error and "Traceback" not in error
    assert not quick and not store.exists()


def test_a_method_that_cannot_be_built_at_the_smallest_size(
    ladder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: list[str]
) -> None:
    """Heads of width 7 are odd, which rotary positions refuse, at every rung: the first is named."""
    command = ["--ladder", ladder, "--gin", "v1_m3", "--store", str(tmp_path / "bench"), "--set", *SETTINGS]
    assert main([*command, "ladder.aspect = 7"]) == 2
    error = capsys.readouterr().err
    assert "cannot be built at rung 1 (depth 1): " in error and "Traceback" not in error and not quick


def test_unknown_names(ladder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--ladder", "pockt", "--plan"]) == 2
    assert "there is no ladder pockt (nearest: pocket): name bench, ladder_smoke, pocket" in capsys.readouterr().err
    assert main(["--ladder", ladder, "--methods", "v1_m33", "--set", *SETTINGS]) == 2
    assert "v1_m33 cannot be built at rung 1" in capsys.readouterr().err
    assert main(["--ladder", "pocket", "--suite", "smoke"]) == 2
    assert "--ladder and --suite: name one of them" in capsys.readouterr().err
    assert main(["--ladder", "pocket", "--seeds", "3"]) == 2
    assert "a ladder has its seeds by rung" in capsys.readouterr().err


def test_every_rung_has_the_plain_block_its_controls_and_the_methods(ladder: str) -> None:
    plan = plan_ladder(ladder, ["v1_m3"], SETTINGS, ["v2_m1+wr_mean", "skip_scalar_0"])
    assert [rung.law.depth for rung in plan.rungs] == [1, 2, 3] and plan.name == "small"
    for rung in plan.rungs:
        roles = {member.label: member.role for member in rung.members}
        assert roles == {
            "plain": "plain",
            "plain, other seeds": "other seeds",
            "plain, 10 % more tokens": "more tokens",
            "plain × 0.5": "budget",
            "plain × 2": "budget",
            "wr_mean": "gain",
            "skip_scalar_0": "harm",
            "v1_m3": "method",
            "v2_m1+wr_mean": "method",
        }
        by_label = {member.label: member for member in rung.members}
        plain, others = by_label["plain"], by_label["plain, other seeds"]
        assert plain.arm.id == others.arm.id and not set(plain.seeds) & set(others.seeds)
        more = by_label["plain, 10 % more tokens"]
        assert more.charged == plain.charged and more.arm.steps == round(plain.arm.steps * 1.1)
        assert by_label["plain × 2"].charged == pytest.approx(2 * plain.charged, rel=0.02)
        assert plain.charged == plain.arm.flops * plain.arm.steps * plain.arm.tokens_per_step


def test_the_rule_is_in_the_configurations(ladder: str) -> None:
    for rung in plan_ladder(ladder, [], SETTINGS).rungs:
        text, law = Job(rung.plain.arm, 1, 1.0).text, rung.law
        assert law == recipe(law.depth, 8, 2.0, 16)
        assert f"model.depth = {law.depth}\n" in text and f"train.lr = {law.rate!r}\n" in text
        assert "ladder." not in text and "suite." not in text
        assert rung.plain.arm.tokens_per_step == law.batch


def test_a_binding_wins_over_the_rule(ladder: str) -> None:
    plan = plan_ladder(ladder, [], [*SETTINGS, "train.lr = 0.125"])
    assert {rung.plain.arm.values["train.lr"] for rung in plan.rungs} == {0.125}


def test_large_batches_are_accumulated() -> None:
    law = recipe(6, aspect=64, tokens_per_parameter=20, length=1024)
    values = dict(line.split(" = ") for line in rung_bindings(law, 64, 1024, most_rows=16))
    rows, accumulate = int(values["data.batch_size"]), int(values["train.accumulate"])
    assert rows <= 16 and accumulate > 1 and rows * accumulate * 1024 == pytest.approx(law.batch, rel=0.05)
    assert int(values["train.steps"]) * rows * accumulate * 1024 == pytest.approx(law.tokens, rel=0.01)


def test_a_ladder_is_the_same_with_a_rung_more_and_another_with_another_corpus(ladder: str) -> None:
    plans = [
        plan_ladder(ladder, [], [*SETTINGS, *more])
        for more in ([], ["ladder.depths = (1, 2)", "ladder.seeds = (2, 2)"], ["data.vocab_size = 301"])
    ]
    keys = [plan.key(plan.hosts[0]) for plan in plans]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("name", ["pocket", "bench", "ladder_smoke"])
def test_the_ladders_of_the_project_name_methods_that_exist(name: str) -> None:
    loaded = load_config([f"ladders/{name}"])
    ladder = loaded.build("ladder")
    assert loaded.build("suite").baselines == ("none",)
    assert all(load_config([method]).plugins for method in (ladder.gain, ladder.harm))
