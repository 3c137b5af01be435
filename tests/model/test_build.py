"""Values of settings that make no sense: each is refused by name, with the place where it was bound."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from helpers.tiny_training import write_corpus

from zoo.cli.train import main
from zoo.config.checks import parameters
from zoo.config.configuration import Config
from zoo.config.gin_bridge import core_configurables, reset_config
from zoo.config.load import load_config
from zoo.counting.flops import skeleton
from zoo.errors import ConfigError, SettingError, ZooError
from zoo.model import room
from zoo.model.build import model
from zoo.system import memory
from zoo.system.global_state import WHILE_BUILT, contained
from zoo.training import memory_check
from zoo.training.settings import Settings

SIZES = {"vocab_size": 64, "max_length": 8}


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    yield
    reset_config()


def built(loaded: Config, name: str) -> Any:
    return loaded.build(name, **(SIZES if name == "model" else {}))


def refusal(*bindings: str, name: str = "model") -> str:
    loaded = load_config(["sizes/tiny"], bindings)
    with pytest.raises(ConfigError) as refused:
        built(loaded, name)
    return str(refused.value)


def numeric() -> list[str]:
    """Every setting of model, train and data that is a number."""
    load_config([])
    keys = []
    for name in ("model", "train", "data"):
        for setting in parameters(core_configurables()[name]).values():
            kinds = {setting.annotation, *get_args(setting.annotation)}
            if kinds & {int, float} and f"{name}.{setting.name}" not in ("model.vocab_size", "model.max_length"):
                keys.append(f"{name}.{setting.name}")
    reset_config()
    return keys


ANY = {"model.seed"}  # any integer is a seed there


@pytest.mark.parametrize("key", sorted(set(numeric()) - ANY))
def test_every_number_has_its_bounds(key: str) -> None:
    name = key.partition(".")[0]
    wrong = {"train.betas": "(0.9, -1.0)", "train.budgets": "(-1.0, 1.0)"}.get(key, "-1")
    sentence = refusal(f"{key} = {wrong}", name=name)
    assert sentence.startswith(f"--set '{key} = ") and f": {key} = " in sentence


@pytest.mark.parametrize(
    ("binding", "sentence"),
    [
        ("model.aspect=0", "model.aspect = 0 must be from 1 to 1,048,576"),
        ("model.aspect=3", "model.aspect = 3: rotary positions turn pairs, so the width of a head must be even"),
        ("model.head_dim=5", "model.head_dim = 5: rotary positions turn pairs"),
        ("model.head_dim=0", "model.head_dim = 0 must be from 1 to"),
        ("model.width=0", "model.width = 0 must be from 1 to"),
        ("model.num_heads=0", "model.num_heads = 0 must be from 1 to"),
        ("model.num_kv_heads=0", "model.num_kv_heads = 0 must be from 1 to"),
        ("model.num_kv_heads=3", "model.num_kv_heads = 3 does not divide num_heads = 2"),
        ("model.ffn_dim=0", "model.ffn_dim = 0 must be from 1 to"),
        ("model.depth=100000", "model.depth = 100000 must be from 1 to 4,096"),
        ("model.rope_theta=0.0", "model.rope_theta = 0.0 must be a number above 0"),
        ("model.rope_theta=1e999", "model.rope_theta = inf must be a number above 0"),
        ("model.norm_eps=1e999", "model.norm_eps = inf must be"),
        ("model.dropout=1.0", "model.dropout = 1.0 must be at least 0 and below 1"),
        ("model.width=10000000", "model.width = 10000000 must be from 1 to 1,048,576"),
        ("model.num_heads=3", "heads of width 16 (model.aspect) are then 48 wide in all, and the model is 32: set"),
        ("model.num_heads=3", "set model.head_dim as well, or model.num_heads = 2"),
        ("model.width=40", "model.width = 40 is not a multiple of model.aspect = 16, the width of a head: set"),
        ("model.width=8", "model.width = 8 is not a multiple of model.aspect = 16"),
        ("train.warmup=50.0", "train.warmup = 50.0 must be between 0 and 1: it is a part of the steps"),
        ("train.final_lr=50.0", "train.final_lr = 50.0 must be between 0 and 1: it is a part of train.lr"),
        ("train.lr=1e999", "train.lr = inf must be"),
        (f"train.tokens={10**20}", "train.tokens = 100000000000000000000 must be at least 1 and at most"),
        (f"train.steps={10**20}", "train.steps = 100000000000000000000 must be at least 1 and at most"),
        ("train.betas=(0.9, 1.0)", "train.betas = (0.9, 1.0) must be two numbers from 0 to below 1"),
        ("data.length=100000000", "data.length = 100000000 must be from 1 to 1,048,576"),
    ],
)
def test_what_is_out_of_range_is_refused_with_its_place(binding: str, sentence: str) -> None:
    refused = refusal(binding, name=binding.partition(".")[0])
    assert refused.startswith(f"--set {binding!r}: ") and sentence in refused


def test_the_place_is_the_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "some.gin").write_text("# rates\ntrain.warmup = 50\n")
    with pytest.raises(ConfigError, match=r"some\.gin:2: train\.warmup = 50\.0 must be between 0 and 1"):
        load_config([tmp_path / "some.gin"]).build("train")


def test_heads_of_another_width_are_taken_when_they_are_asked_for() -> None:
    attention = model(64, 8, depth=1, width=192, num_heads=5, head_dim=32).layers[0].attention
    assert attention.out.shape == (192, 160)
    assert model(64, 8, depth=6, num_heads=6).layers[0].attention.out.shape == (192, 192)


def test_a_refusal_can_go_from_rank_to_rank() -> None:
    sent = pickle.loads(pickle.dumps(SettingError("train.lr", " = 1 must be less")))
    assert (str(sent), sent.key) == ("train.lr = 1 must be less", "train.lr")


# --- memory


def test_a_model_that_does_not_fit_is_refused_before_it_is_built() -> None:
    assert "parameters needs" in refusal("model.width=1048576", "model.head_dim=64")
    with torch.device("meta"), pytest.raises(ZooError, match=r"needs \d+e\+\d+ GB of memory"):
        model(64, 8, depth=4096, width=1 << 20, head_dim=2)  # more than could even be counted in bytes
    with torch.device("meta"):
        assert model(64, 8, depth=1, width=1 << 16, head_dim=64).num_parameters() > 1e10  # no memory is needed for that


def test_a_model_can_be_built_after_the_default_device_was_put_back() -> None:
    torch.set_default_device(None)  # as someone may undo a change; torch cannot then name the default device
    try:
        assert model(64, 8, depth=1, aspect=16).num_parameters() > 0
    finally:
        del torch._GLOBAL_DEVICE_CONTEXT.device_context
    with contained(WHILE_BUILT):
        torch.set_default_device("meta")
    assert torch.get_default_device() == torch.device("cpu")  # which transformers asks for


@pytest.fixture
def tiny(tmp_path: Path) -> list[str]:
    """A run of a few steps."""
    corpus, cache = write_corpus(tmp_path), tmp_path / "cache"
    bindings = [f"data.corpus={str(corpus)!r}", f"data.cache={str(cache)!r}", "train.steps=1", "train.device='cpu'"]
    return ["--gin", "sizes/tiny", "v1_m3", "--runs", str(tmp_path / "runs"), "--set", *bindings]


@pytest.mark.parametrize("free", [100_000, 600_000])  # the second holds the weights, but not what training adds
def test_a_training_that_does_not_fit(
    tiny: list[str], free: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (room, memory_check):
        monkeypatch.setattr(module, "available", lambda device="cpu": free)
    assert main(tiny) == 2
    assert (
        "parameters needs 0.0 GB of memory, and 0.0 GB are available: choose a smaller one" in capsys.readouterr().err
    )


class Big(torch.nn.Module):
    """Stands for a method with many parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(10**7, 10**7))


def test_parameters_of_methods_count_and_nothing_is_drawn() -> None:
    before = torch.get_rng_state()
    with pytest.raises(ConfigError, match="a model of 100,000,000,000,000 parameters needs"):
        memory_check.check_skeleton(lambda: torch.rand(3) is None or Big(), Settings(), "cpu")
    assert torch.equal(before, torch.get_rng_state())
    memory_check.check_skeleton(
        lambda: torch.nn.Linear(1, int(torch.ones(()))), Settings(), "cpu"
    )  # it looks at values: not its to say


def test_a_step_that_needs_much_is_warned_of_and_a_hopeless_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    plain = model(64, 8, depth=2, aspect=16)

    def notes(length: int, free: int, **settings: Any) -> list[str]:
        monkeypatch.setattr(memory_check, "available", lambda device="cpu": free)
        data: Any = SimpleNamespace(batch_size=8, length=length)
        return memory_check.check_step(plain, data, Settings(**settings), "cpu")

    assert notes(512, 10**9) == []
    (memory_note,) = notes(512, 10**7)
    assert "8 × 512 tokens needs about 0.0 GB of memory" in memory_note and "checkpoint_activations" in memory_note
    assert notes(512, 10**7, checkpoint_activations=True) == []
    (square,) = notes(100_000, 10**12)
    assert "data.length = 100,000: attention grows with the square of the length" in square
    with pytest.raises(ConfigError, match=r"8 × 1,000,000 tokens needs about [\d.]+ GB"):
        notes(1_000_000, 10**9)


def test_what_a_container_leaves(tmp_path: Path) -> None:
    assert memory._of_group(tmp_path) == 1 << 62
    for name, text in {"max": "1000", "current": "700", "stat": "anon 5\nactive_file 60\ninactive_file 40\n"}.items():
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory._of_group(tmp_path) == 400
    (tmp_path / "memory.max").write_text("max")
    assert memory._of_group(tmp_path) == 1 << 62


@pytest.mark.parametrize(
    ("heads", "kv_heads"), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 2), (8, 2), (12, 3), (16, 4)]
)
def test_about_four_queries_share_keys_in_the_modern_block_at_every_size(heads: int, kv_heads: int) -> None:
    loaded = load_config(["blocks/modern"], [f"model.depth = {heads}", "model.aspect = 4"])
    layer = skeleton(partial(loaded.build, "model", vocab_size=9, max_length=4)).layers[0].layer
    assert (layer.num_heads, layer.num_kv_heads) == (heads, kv_heads)
    assert loaded.build("train").z_loss == 1e-4 and loaded.get("model.qk_norm")
