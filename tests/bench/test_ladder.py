"""Ladders as Gin files: what is refused before anything runs, and what the rule makes of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.pretend_ladder import LADDER, SETTINGS

from zoo.bench.arms import Job
from zoo.bench.ladder import Ladder
from zoo.bench.ladder_plan import plan_ladder
from zoo.cli.bench import main
from zoo.config.load import load_config
from zoo.config.recipe import batch_tokens, peak_lr
from zoo.errors import ConfigError


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
        ({"seeds": (1, 1, 1), "looks": (1,)}, "nothing says how large the noise is"),
        ({"looks": (3, 3)}, "each larger than the one before"),
        ({"margin": 0.0}, "ladder.margin = 0 must be above 0"),
        ({"margin": float("nan")}, "ladder.margin = nan must be above 0"),
        ({"budgets": (0.0, 1.0)}, "must be multiples of a rung's tokens, above 0"),
        ({"budgets": (1.0, 2.0)}, "what tokens are worth takes three budgets, a rung's own (1) and two others"),
        ({"budgets": (2.0, 2.0)}, "without them κ_data is not known"),
        ({"tokens_per_parameter": 0.0}, "must be above 0"),
        ({"most_rows": 0}, "must be at least 1"),
        ({"gain": ""}, "ladder.gain must name a method whose gain is known"),
        ({"harm": ""}, "ladder.harm must name a method whose harm is known"),
        ({"harm": "wr_mean"}, "ladder.gain and ladder.harm are both wr_mean: one method is no control for a gain and"),
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
        ('suite.baselines = ("parameters",)', "a ladder compares every method with the plain block as it is"),
        ('suite.baselines = ("none", "time")', 'leave suite.baselines out, or bind ("none",)'),
        ("suite.seeds = 5", "a ladder does not use suite.seeds: bind ladder.seeds"),
        (
            "suite.control_seeds = 9",
            "a ladder does not use suite.control_seeds: bind ladder.seeds, which the plain block",
        ),
        ("suite.looks = (3, 5)", "a ladder does not use suite.looks: bind ladder.looks"),
        ("ladder.budgets = (1.0,)", "without them κ_data is not known"),
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


def test_a_setting_that_a_method_refuses_is_refused_before_anything_runs(
    ladder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: list[str]
) -> None:
    store = tmp_path / "bench"
    command = ["--ladder", ladder, "--methods", "wr_8_2(n=0)", "--store", str(store), "--set", *SETTINGS]
    assert main([*command, "--plan"]) == main(command) == 2
    sentence = "wr_8_2(n=0) cannot be built at rung 1 (depth 1): wr_8_2: n = 0 must be at least 1"
    assert capsys.readouterr().err.count(sentence) == 2
    assert not quick and not store.exists()


def test_a_ladder_that_binds_no_baselines_has_the_plain_block_alone(tmp_path: Path) -> None:
    file = tmp_path / "small.gin"
    file.write_text(LADDER.replace('suite.baselines = ("none",)\n', ""))
    plan = plan_ladder(str(file), ["v1_m3"], SETTINGS)
    assert plan.suite.baselines == ("none",)
    assert all(
        set(member.arm.baselines) == {"none"} for member in plan.rungs[0].members if member.arm.match == "method"
    )


def test_unknown_names(ladder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--ladder", "pockt", "--plan"]) == 2
    assert "there is no ladder pockt (nearest: pocket): name bench, ladder_smoke, pocket" in capsys.readouterr().err
    assert main(["--ladder", ladder, "--methods", "v1_m33", "--set", *SETTINGS]) == 2
    assert "v1_m33 cannot be built at rung 1" in capsys.readouterr().err
    assert main(["--ladder", "pocket", "--suite", "smoke"]) == 2
    assert "--ladder and --suite: name one of them" in capsys.readouterr().err
    assert main(["--ladder", "pocket", "--seeds", "3"]) == 2
    assert "a ladder has its seeds by rung" in capsys.readouterr().err
    assert main(["--ladder", "pocket", "--until-decided", "--plan"]) == 2
    assert "'ladder.looks = (3, 5, 8)' in place of --until-decided" in capsys.readouterr().err


def test_every_rung_has_the_plain_block_its_controls_and_the_methods(ladder: str) -> None:
    plan = plan_ladder(ladder, ["v1_m3"], SETTINGS, ["v2_m1+wr_mean", "skip_scalar_0"])
    assert [rung.size.depth for rung in plan.rungs] == [1, 2, 3] and plan.name == "small"
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


def test_the_laws_are_in_the_configurations(ladder: str) -> None:
    for rung in plan_ladder(ladder, [], SETTINGS).rungs:
        text, arm, size = Job(rung.plain.arm, 1, 1.0).text, rung.plain.arm, rung.size
        assert size.parameters == 12 * (8 * size.depth) ** 2 * size.depth
        assert f"model.depth = {size.depth}\n" in text and "train.decay_embeddings = False\n" in text
        assert arm.values["train.lr"] == pytest.approx(peak_lr(size.parameters), rel=1e-3)
        assert arm.tokens_per_step == pytest.approx(batch_tokens(size.parameters), abs=8)
        assert "ladder." not in text and "suite." not in text and "recipe." not in text


# depth, N in millions, 20 N in millions, batch in thousands, rate, steps: as they were published
POCKET = [(2, 0.10, 2.0, 3, 0.024, 640), (3, 0.33, 6.6, 7, 0.016, 960), (4, 0.79, 16, 12, 0.012, 1280)]
POCKET += [(5, 1.5, 31, 19, 0.010, 1600)]


def test_the_pocket_ladder_is_the_published_table() -> None:
    for rung, (depth, size, tokens, batch, rate, steps) in zip(
        plan_ladder("pocket", [], []).rungs, POCKET, strict=True
    ):
        arm = rung.plain.arm
        assert rung.size.depth == depth and rung.size.parameters / 1e6 == pytest.approx(size, rel=0.05)
        assert arm.steps * arm.tokens_per_step / 1e6 == pytest.approx(tokens, rel=0.05)
        assert arm.tokens_per_step / 1e3 == pytest.approx(batch, rel=0.08)
        assert arm.values["train.lr"] == pytest.approx(rate, rel=0.04) and arm.steps == pytest.approx(steps, rel=0.01)
        assert arm.values["train.betas"] == (0.9, 0.99)


def test_a_binding_wins_over_the_rule(ladder: str) -> None:
    plan = plan_ladder(ladder, [], [*SETTINGS, "train.lr = 0.125"])
    assert {rung.plain.arm.values["train.lr"] for rung in plan.rungs} == {0.125}


def test_large_batches_are_accumulated(ladder: str) -> None:
    plain, split = (
        plan_ladder(ladder, [], [*SETTINGS, *more]).rungs[-1].plain.arm for more in ([], ["ladder.most_rows = 10"])
    )
    assert split.values["data.batch_size"] <= 10 and split.values["train.accumulate"] > 1
    assert split.tokens_per_step == pytest.approx(plain.tokens_per_step, rel=0.1)


def test_one_method_with_several_settings(ladder: str) -> None:
    plan = plan_ladder(ladder, [], SETTINGS, ["wr_8_2(n=2)", "wr_8_2(n=6)"])
    assert [member.label for member in plan.rungs[0].members if member.role == "method"] == [
        "wr_8_2(n=2)",
        "wr_8_2(n=6)",
    ]


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
