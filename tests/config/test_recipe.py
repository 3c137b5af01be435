"""The laws of a recipe: its numbers, what a binding changes, and what makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.bench.selection import select_arms
from zoo.config.load import load_config
from zoo.config.recipe import batch_tokens, num_parameters, peak_lr, second_beta
from zoo.errors import ConfigError

LAW = ["recipes/law"]

# depth, aspect → parameters, tokens at 20 each, tokens per batch, learning rate; to the digits that are given.
RUNGS = [
    (2, 32, 0.10e6, 2.0e6, 3e3, 0.024),
    (3, 32, 0.33e6, 6.6e6, 7e3, 0.016),
    (4, 32, 0.79e6, 16e6, 12e3, 0.012),
    (5, 32, 1.5e6, 31e6, 19e3, 0.010),
    (6, 64, 11e6, 0.21e9, 70e3, 0.0051),
    (16, 64, 201e6, 4.0e9, 496e3, 0.0019),
]


@pytest.mark.parametrize(("depth", "aspect", "parameters", "tokens", "batch", "lr"), RUNGS)
def test_the_law_gives_the_ladders_numbers(
    depth: int, aspect: int, parameters: float, tokens: float, batch: float, lr: float
) -> None:
    made = num_parameters(depth * aspect, depth)
    assert made == pytest.approx(parameters, rel=0.05)
    assert 20 * made == pytest.approx(tokens, rel=0.05)
    assert batch_tokens(made) == pytest.approx(batch, rel=0.05)
    assert peak_lr(made) == pytest.approx(lr, rel=0.05)


def test_the_second_beta_falls_with_large_batches() -> None:
    assert (second_beta(524_287), second_beta(524_288)) == (0.99, 0.95)


def test_what_is_not_bound_has_the_laws_value() -> None:
    loaded = load_config(LAW, ["model.depth = 4", "model.aspect = 32", "data.length = 128"])
    n = 12 * 128**2 * 4
    batch = round(327680 * (n / 108e6) ** (2 / 3) / 128)
    assert loaded.get("data.batch_size") == batch == 96
    assert loaded.get("train.tokens") == 20 * n
    assert loaded.get("train.lr") == pytest.approx(0.00235 * (108e6 / n) ** (1 / 3), rel=1e-3)
    assert loaded.get("train.warmup") == pytest.approx(1 / 20)
    assert loaded.get("train.betas") == (0.9, 0.99)
    assert (loaded.get("train.weight_decay"), loaded.get("train.decay_embeddings")) == (0.1, False)
    settings = loaded.build("train")
    assert settings.num_steps(batch * 128) == -(-20 * n // (batch * 128))


def test_the_configuration_holds_plain_values_and_loads_to_itself(tmp_path: Path) -> None:
    first = load_config(["recipes/budgets"], ["model.depth = 2"])
    assert "recipe." not in first.text and first.unused  # used up
    (tmp_path / "config.gin").write_text(first.text)
    second = load_config([tmp_path / "config.gin"])
    assert second.text == first.text and second.recipe == ()


def test_several_budgets_make_the_run_longer() -> None:
    once, four = (load_config([f"recipes/{name}"], ["model.depth = 2"]) for name in ("law", "budgets"))
    assert four.get("train.tokens") == 4 * once.get("train.tokens")
    assert four.get("train.warmup") == pytest.approx(once.get("train.warmup") / 4)


def test_what_is_bound_stays_and_is_said() -> None:
    loaded = load_config(LAW, ["model.depth = 2", "train.lr = 0.5", "data.batch_size = 3", "train.steps = 700"])
    assert (loaded.get("train.lr"), loaded.get("data.batch_size")) == (0.5, 3)
    assert "train.tokens" not in loaded.values and loaded.get("train.steps") == 700
    bound = {each.name: each for each in loaded.recipe if each.bound}
    assert sorted(bound) == ["data.batch_size", "train.lr", "train.steps"]
    assert bound["train.lr"].bound == "--set 'train.lr = 0.5'" and "by law 0.02425" in bound["train.lr"].formula
    tokens = 700 * 3 * loaded.get("data.length")
    assert loaded.get("train.warmup") == pytest.approx(98304 / tokens, rel=1e-3)


def test_a_batch_that_is_too_large_is_made_in_parts() -> None:
    loaded = load_config(
        LAW, ["model.depth = 6", "model.aspect = 64", "data.length = 256", "recipe.rows_at_once = 100"]
    )
    rows = 327680 * (12 * 384**2 * 6 / 108e6) ** (2 / 3) / 256
    parts = loaded.get("train.accumulate")
    assert parts == -(-round(rows) // 100) == 3
    assert loaded.get("data.batch_size") == round(round(rows) / 3) <= 100


def test_without_a_recipe_nothing_changes() -> None:
    loaded = load_config([], [])
    assert loaded.recipe == () and loaded.get("train.lr") == 3e-3 and "recipe." not in loaded.text
    assert "train.tokens" not in loaded.values


def test_every_arm_of_a_bench_has_the_same_recipe() -> None:
    bindings = ["model.depth = 2", "model.aspect = 16", "data.length = 32", "data.vocab_size = 512"]
    arms, _ = select_arms(None, LAW, [*bindings, "suite.hosts = ('sequential',)"], ("wr_8_2", "v1_m3"))
    assert len(arms) > 2
    for key in ("train.lr", "data.batch_size", "train.warmup", "train.betas", "train.steps"):
        assert len({arm.values[key] for arm in arms}) == 1, key
    assert not any(key.startswith("recipe.") for arm in arms for key in arm.values)


@pytest.mark.parametrize(
    ("binding", "sentence"),
    [
        ("recipe.tokens_per_parameter = 0", r"^--set .*recipe\.tokens_per_parameter = 0\.0 must be above 0"),
        ("recipe.tokens_per_parameter = 1e999", r"must be above 0 and below"),
        ("recipe.tokens_per_parameter = 0.5", r"the warm-up alone takes N = "),
        ("recipe.rows_at_once = 0", r"^--set .*recipe\.rows_at_once = 0 must be at least 1"),
        ("model.depth = 0", r"^--set .*model\.depth = 0 must be from 1"),
        ("data.length = -5", r"data\.length = -5 must be from 1"),
        ("recipe.tokens_per_param = 20", r"recipe has no setting tokens_per_param \(nearest: tokens_per_parameter\)"),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(binding: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_config(LAW, [binding])


def test_rows_at_once_alone_says_what_it_lacks() -> None:
    with pytest.raises(ConfigError, match=r"no effect without recipe\.tokens_per_parameter"):
        load_config([], ["recipe.rows_at_once = 4"])
