"""Settings under a former name still count, and say what they are called now."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.config.gin_bridge import reset_config
from zoo.config.load import load_config, named
from zoo.config.renamed import RENAMED
from zoo.config.values import changed_bindings, parse_bindings
from zoo.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_configuration() -> None:
    reset_config()


def test_every_name_of_today_exists_and_no_former_one_does() -> None:
    for former, today in RENAMED.items():
        assert named(today) == [today] and not named(former)


def test_a_former_name_counts_and_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "config.gin"
    file.write_text("train.steps = 3\ntrain.trackers = ('wandb',)\n", "utf-8")
    config = load_config([file])
    assert config.get("records.writers") == ("wandb",) and "train.trackers" not in config.text
    (warning,) = (each for each in config.warnings if "trackers" in each)
    assert warning == f"{file}:2: train.trackers is called records.writers now"
    with pytest.raises(ConfigError, match=r"train.trackers=3': records.writers must be a tuple, each str, not 3"):
        load_config([], ["train.trackers=3"])


def test_stored_configurations_are_read_under_the_names_of_today() -> None:
    before, now = "train.lr = 1.0\ntrain.trackers = ('wandb',)\n", "records.writers = ('wandb',)\ntrain.lr = 1.0\n"
    assert parse_bindings(before) == parse_bindings(now)
    assert changed_bindings(before, now) == []
    assert changed_bindings(before, "train.lr = 1.0\n") == ["  - records.writers = ('wandb',)"]
