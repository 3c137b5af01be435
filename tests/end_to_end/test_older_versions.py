"""Runs, stores and plugins of earlier versions still work.

`data/older` was made by the commit before the modules were moved into packages: an interrupted run (`corpus` below is its
text), the losses of the same run uninterrupted, a part of the store in results/, and methods written with `zoo-plugins new`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.fake_distributions import Site, forget_modules
from helpers.random_models import random_model
from helpers.small_sites import every_other

from zoo.cli import plugins as plugins_command, report as report_command, train as train_command
from zoo.config.gin_bridge import reset_config
from zoo.errors import RunError
from zoo.runs.metrics import read_rows
from zoo.slots import SLOTS
from zoo.training import setup

OLDER = Path(__file__).parents[1] / "data/older"
OLD_SLOTS = [slot for slot in SLOTS if (OLDER / "plugins" / f"old_{slot}").is_dir()]
SETTINGS = [
    "model.depth=2",
    "model.width=16",
    "model.head_dim=8",
    "data.vocab_size=300",
    "data.length=32",
    "data.batch_size=4",
    "train.steps=40",
    "train.save_every=10",
    "train.validate_every=20",
    "train.log_every=5",
]


def corpus() -> str:
    return "".join(f"Row {i} says that {i * i % 97} follows {i % 13} and {i * 7 % 31}.\n\n" for i in range(1500))


def test_the_older_plugins_are_of_the_slots_that_there_were() -> None:
    assert OLD_SLOTS == ["residual", "score_mixing", "temporal_mixing"]


def test_an_interrupted_run_resumes_to_the_same_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(OLDER / "run", tmp_path / "run")
    (tmp_path / "corpus.txt").write_text(corpus(), "utf-8")
    monkeypatch.chdir(tmp_path)
    bindings = ['data.corpus="corpus.txt"', 'data.cache="cache"', *SETTINGS]
    try:
        assert train_command.main(["--gin", "skip_vector", "--set", *bindings, "--run", "run"]) == 0
    finally:
        reset_config()
    losses = {f"{row['step']} {row['kind']}": row["loss"] for row in read_rows(Path("run")) if "loss" in row}
    assert losses == pytest.approx(json.loads((OLDER / "losses.json").read_text("utf-8")), rel=1e-5)


def test_a_checkpoint_with_an_idle_attention_is_refused_with_a_sentence() -> None:
    """Until API 1.2 attention was built, and saved, where a method stood in its place."""
    older, built = random_model(depth=2).state_dict(), random_model(depth=2, temporal_mixing=every_other)
    session = SimpleNamespace(model=built, folder=Path("some/run"))
    saved = {"model": {**older, **built.state_dict()}}
    with pytest.raises(RunError, match=r"some/run has weights of attention where half stands in its place \(layers\.0"):
        setup._load(SimpleNamespace(name="half"), session, saved, Path("some/run/checkpoints/1"))


def test_a_store_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    shutil.copytree(OLDER / "store", store)
    assert report_command.main([str(store), "--into", str(tmp_path / "report")]) == 0
    report = (tmp_path / "report/report.md").read_text("utf-8")
    for method, losses in (("skip_scalar", "4.4750 | 4.4691"), ("skip_vector", "4.4763 | 4.4691")):
        (row,) = (line for line in report.splitlines() if line.startswith(f"| {method} |") and losses in line)
        assert row.endswith(("| the same |", "| open |"))


@pytest.mark.parametrize("slot", OLD_SLOTS)
def test_a_plugin_written_before_conforms(slot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    id = f"old_{slot}"
    name = "".join(part.capitalize() for part in id.split("_"))
    site = Site(tmp_path)
    shutil.copytree(OLDER / "plugins" / id, tmp_path / id)
    site.install(f"old-{slot}", {slot: {id: f"{id}.method:{name}"}})
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert plugins_command.main(["check", id]) == 0
        assert id in sys.modules
    finally:
        forget_modules(tmp_path)
