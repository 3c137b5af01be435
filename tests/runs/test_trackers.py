"""Trackers beside TensorBoard: they get every row, change nothing, and their failures end nothing."""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_training import config, go, outcome

from zoo.errors import RunError, ZooError
from zoo.runs import trackers
from zoo.runs.metrics import read_rows
from zoo.runs.trackers import RecordSettings, Trackers


class Noted:
    """A tracker that remembers, or fails where it is told to."""

    logged: list[tuple[int, dict[str, float]]]

    def __init__(self, folder: Path, settings: Mapping[str, Any], fails: str = "") -> None:
        self.fails, self.closed = fails, 0
        type(self).logged, self.settings = [], dict(settings)
        if fails == "begin":
            raise OSError("no route to host")

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        if self.fails == "log":
            raise RuntimeError("quota\nexceeded")
        self.logged.append((step, dict(scalars)))

    def close(self) -> None:
        if self.fails == "close":
            raise SystemError("gone")


def test_a_tracker_gets_the_rows_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trackers.TRACKERS, "wandb", Noted)
    go(config(tmp_path), tmp_path / "without")
    go(config(tmp_path, writers=("wandb",)), tmp_path / "with")
    assert outcome(tmp_path / "without") == outcome(tmp_path / "with")
    rows = [row for row in read_rows(tmp_path / "with") if row["kind"] in ("train", "valid")]
    assert [step for step, _ in Noted.logged] == [row["step"] for row in rows]
    of_training = [scalars for _, scalars in Noted.logged if "loss/train" in scalars]
    assert [each["loss/train"] for each in of_training] == [row["loss"] for row in rows if row["kind"] == "train"]
    assert any("valid/perplexity" in scalars for _, scalars in Noted.logged)


def test_a_run_begun_under_the_former_name_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trackers.TRACKERS, "wandb", Noted)
    run = tmp_path / "run"
    with pytest.raises(KeyError):  # at the eighth batch
        go(config(tmp_path, dict.fromkeys(range(8)).__getitem__, writers=("wandb",)), run)
    for file in (run / "config.gin", run / "operative.gin"):
        former = file.read_text("utf-8").replace("records.writers", "train.trackers")
        assert "train.trackers" in former
        file.write_text(former, "utf-8")
    assert go(config(tmp_path), run).status == "finished"


@pytest.mark.parametrize("fails", ["begin", "log", "close"])
def test_a_tracker_that_fails_ends_nothing(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heard: list[str] = []
    monkeypatch.setitem(trackers.TRACKERS, "wandb", lambda folder, settings: Noted(folder, settings, fails))
    of_run = Trackers(("wandb",), tmp_path, "train.steps = 3\n", heard.append)
    for step in (1, 2):
        of_run.row("train", step, {"loss": 1.0, "where": "here"})
    of_run.close()
    (sentence,) = heard
    assert sentence.startswith("the tracker wandb failed and is left out from here on; the run goes on: ")
    assert "\n" not in sentence
    assert go(config(tmp_path, writers=("wandb",)), tmp_path / "run").status == "finished"


def test_what_is_not_installed_or_not_known_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        RunError,
        match=r"records.writers names 'trackio', which is not installed: pip install 'transformer-zoo\[trackio\]'",
    ):
        Trackers(("trackio",), tmp_path, "", print)
    for wrong, complaint in ((("wand",), "nearest: wandb"), (("wandb", "wandb"), "each once")):
        with pytest.raises(ZooError, match=complaint):
            RecordSettings(writers=wrong)
    assert RecordSettings().writers == ()


def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "settings"))
    go(config(tmp_path), tmp_path / "without")
    summary = go(config(tmp_path, writers=("wandb",)), tmp_path / "with")
    assert summary.status == "finished" and outcome(tmp_path / "without") == outcome(tmp_path / "with")
    (file,) = (tmp_path / "with" / "wandb").glob("offline-run-*/run-*.wandb")
    content = file.read_bytes()
    assert b"loss/train" in content and b"valid/perplexity" in content and b"train.lr" in content


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("trackio") is None, reason="the extra trackio is not installed")
def test_trackio_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    summary = go(config(tmp_path, writers=("trackio",)), tmp_path / "run")
    assert summary.status == "finished" and capsys.readouterr().out == ""
    (database,) = (tmp_path / "trackio").rglob("zoo*.db")
    with sqlite3.connect(database) as connection:
        steps = connection.execute(
            "select step from metrics where cast(metrics as text) like '%loss/train%'"
        ).fetchall()
    assert sorted(step for (step,) in steps) == [2, 4, 6, 8, 10, 12]
