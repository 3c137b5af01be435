from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers.small_checkpoints import write_checkpoint

from zoo.config.load import load_config
from zoo.errors import ConfigError


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(folder)
    return folder


def start(folder: Path) -> str:
    return f"model.start_from = {str(folder)!r}"


def test_sizes_and_tokenizer_follow_from_the_checkpoint(checkpoint: Path) -> None:
    config = load_config([], [start(checkpoint)])
    names = ("depth", "width", "num_heads", "num_kv_heads", "head_dim", "ffn_dim", "tied")
    assert [config.get(f"model.{name}") for name in names] == [2, 32, 4, 2, 8, 48, False]
    assert config.get("data.tokenizer") == str(checkpoint) and config.get("data.pad_vocab") == 320


def test_a_bound_size_must_be_the_checkpoints(checkpoint: Path) -> None:
    assert load_config([], [start(checkpoint), "model.depth = 2"]).get("model.depth") == 2
    with pytest.raises(ConfigError) as refusal:
        load_config(["sizes/base"], [start(checkpoint), "model.norm_eps = 0.5"])
    for words in (
        "base.gin:",
        "model.depth is",
        "--set 'model.norm_eps",
        "model.norm_eps is 0.5 here and 1e-06 there: leave them out",
    ):
        assert words in str(refusal.value)


def test_the_configuration_of_a_run_needs_the_checkpoint_no_more(checkpoint: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    config = load_config([], [start(copy)])
    (tmp_path / "config.gin").write_text(config.text)
    shutil.rmtree(copy)
    assert load_config([tmp_path / "config.gin"]).text == config.text
    with pytest.raises(ConfigError, match="--set .*there is no such folder"):
        load_config([], [start(copy)])


def test_a_checkpoint_without_a_tokenizer_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        shutil.copy(checkpoint / name, tmp_path)
    with pytest.raises(ConfigError, match="has neither a tokenizer.json nor a tokenizer.model"):
        load_config([], [start(tmp_path)])
    (tmp_path / "tokenizer.model").touch()
    assert load_config([], [start(tmp_path)]).get("data.tokenizer") == str(tmp_path / "tokenizer.model")


def test_another_checkpoint_in_the_same_place_is_another_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    write_checkpoint(folder)
    first, again = (load_config([], [start(folder)]) for _ in range(2))
    assert first.text == again.text
    (tmp_path / "config.gin").write_text(first.text)
    write_checkpoint(folder, seed=1)
    assert load_config([], [start(folder)]).text != first.text
    before = load_config([tmp_path / "config.gin"])
    with pytest.raises(ConfigError, match="is another checkpoint than the one that was there before"):
        before.build("model", vocab_size=320, max_length=8)
