"""The plan of a run shows every number with its formula."""

from __future__ import annotations

import pytest

from zoo.cli.train import main
from zoo.config.load import load_config
from zoo.training.plan import plan_table


def test_the_plan_shows_the_laws_and_the_budgets() -> None:
    table = plan_table(load_config(["recipes/budgets"], ["model.depth = 2", "train.lr = 0.5"]))
    rows = {name: (value, formula) for name, value, formula in table.rows}
    assert rows["parameters N"] == ("98,304", "12 w² d = 12 · 64² · 2, without embeddings")
    assert rows["train.tokens"] == ("7,864,320", "20 N · 4, the last of train.budgets")
    assert rows["train.lr"][0] == "0.5" and "--set 'train.lr = 0.5'" in rows["train.lr"][1]
    assert [name for name in rows if name.startswith("budget")] == [f"budget × {c}" for c in ("0.5", "1", "2", "4")]
    steps = int(rows["steps"][0].replace(",", ""))
    assert rows["budget × 4"][1].startswith(f"to step {steps:,},")


def test_the_command_prints_it_and_trains_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    assert main(["--plan", "--gin", "recipes/law", "sizes/tiny"]) == 0
    printed = capsys.readouterr().out
    assert "| train.warmup | 0.05 | N tokens of" in printed and "| training FLOPs per token |" in printed
    assert not list(tmp_path.iterdir())
