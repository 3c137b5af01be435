"""The optimiser and the schedule are chosen by name; memory and checkpoints are counted with what the optimiser keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import tiny_training

from zoo.catalogue import settings_list
from zoo.config.configuration import Config
from zoo.config.load import load_config
from zoo.config.values import changed
from zoo.errors import ConfigError
from zoo.extension import hint
from zoo.training import memory_check, optimizer
from zoo.training.adamw import AdamW
from zoo.training.optimizer import OPTIMIZERS, OptimizerEntry, make_optimizer
from zoo.training.parameter_groups import parameter_groups
from zoo.training.schedules import SCHEDULES, learning_rate
from zoo.training.settings import Settings
from zoo.training.setup import checkpoint_size
from zoo.training.update_settings import UpdateSettings


def test_the_learning_rate_rises_and_follows_a_cosine_to_its_final_part() -> None:
    settings = Settings(lr=2.0, warmup=0.1, final_lr=0.2)
    rates = [learning_rate(step, 100, settings) / 2.0 for step in range(1, 101)]
    assert rates[:10] == pytest.approx([0.1 * step for step in range(1, 11)])
    assert rates[9] == max(rates) == 1.0
    assert rates[54] == pytest.approx(0.6)  # half way down from 1 to 0.2
    assert rates[99] == pytest.approx(0.2)
    assert all(later < earlier for earlier, later in zip(rates[9:], rates[10:], strict=False))
    assert learning_rate(1, 1, Settings(lr=2.0, warmup=0.5, final_lr=0.1)) == 2.0


def test_adamw_has_the_settings_and_the_groups_of_the_hints() -> None:
    model = torch.nn.Linear(3, 2)
    hint(model.bias, lr_factor=0.5)
    made = make_optimizer(model, Settings(lr=0.1, betas=(0.5, 0.6), eps=1e-3, weight_decay=0.2))
    assert isinstance(made, AdamW)
    matrix, bias = made.param_groups
    assert (matrix["lr"], matrix["weight_decay"], matrix["betas"], matrix["eps"]) == (0.1, 0.2, (0.5, 0.6), 1e-3)
    assert (bias["lr"], bias["lr_factor"]) == (0.05, 0.5)


def test_the_numbers_that_adamw_keeps_are_those_in_its_state() -> None:
    model = torch.nn.Linear(300, 200)
    made = make_optimizer(model, Settings())
    model(torch.ones(1, 300)).sum().backward()
    made.step()
    kept = sum(value.numel() for state in made.state.values() for value in state.values() if value.numel() > 1)
    assert kept == OPTIMIZERS["adamw"].numbers * sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"optimizer": "adam"}, r"train\.optimizer = 'adam' must be one of 'adamw', 'muon' \(nearest: adamw\)"),
        (
            {"schedule": "cosin"},
            r"train\.schedule = 'cosin' must be one of 'cosine', 'wsd', 'wsd_s' \(nearest: cosine\)",
        ),
        ({"schedule": "staircase"}, r"train\.schedule = 'staircase' must be one of 'cosine', 'wsd', 'wsd_s'$"),
    ],
)
def test_an_unknown_name_gets_the_nearest(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Settings(**settings)  # type: ignore[arg-type]


def test_another_optimizer_and_schedule_are_one_entry_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make_sgd(model: torch.nn.Module, settings: UpdateSettings) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameter_groups(model, settings))

    monkeypatch.setitem(OPTIMIZERS, "sgd", OptimizerEntry(make_sgd, numbers=0))
    monkeypatch.setitem(SCHEDULES, "flat", lambda step, steps, settings: 1.0)
    settings = Settings(optimizer="sgd", schedule="flat", lr=0.1)
    model = torch.nn.Linear(100, 100)
    assert isinstance(make_optimizer(model, settings), torch.optim.SGD)
    assert learning_rate(99, 100, settings) == 0.1
    weights = 4 * (100 * 100 + 100)
    assert checkpoint_size(model, Settings()) - checkpoint_size(model, settings) == 2 * weights
    assert (memory_check.bytes_trained(Settings()), memory_check.bytes_trained(settings)) == (16, 8)
    run = tiny_training.config(tmp_path, optimizer="sgd", schedule="flat", log_every=1, steps=2, lr=0.02)
    assert tiny_training.go(run, tmp_path / "run").status == "finished"
    assert {row["learning_rate"] for row in tiny_training.read_rows(tmp_path / "run", "train")} == {0.02}


def test_the_docstring_names_what_the_tables_have() -> None:
    limits = {entry.key: entry.limits for group in settings_list.core() for entry in group.entries}
    for key, table in (("train.optimizer", optimizer.OPTIMIZERS), ("train.schedule", SCHEDULES)):
        assert limits[key] == f"one of {', '.join(map(repr, table))}"


def test_the_new_names_are_defaults_and_change_no_stored_configuration() -> None:
    loaded: Config = load_config([], [])
    assert "train.optimizer" not in loaded.text and loaded.get("train.optimizer") == "adamw"
    before = {key: value for key, value in loaded.whole().items() if key not in ("train.optimizer", "train.schedule")}
    assert changed(before, loaded.whole()) == []
