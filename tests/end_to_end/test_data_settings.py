"""Runs on mixtures and on documents kept apart, from the command line to the records."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from zoo.cli import train as train_command
from zoo.config.gin_bridge import reset_config
from zoo.runs.metrics import read_rows
from zoo.runs.summary import read_summary

SETTINGS = [
    "model.depth=1", "model.width=16", "model.head_dim=8", "data.vocab_size=300", "data.length=32", "data.batch_size=4",
    "train.steps=8", "train.save_every=4", "train.validate_every=4", "train.log_every=2", "train.device='cpu'",
]  # fmt: skip
METHOD = "wr_9_log"  # declared not causal


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        rows = [f"{name} {i} says that {i * i % 97} follows {i % 13}." for i in range(900)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    return {"a.jsonl": 3.0, "b.jsonl": 1.0}


def train(folder: str, *settings: str) -> int:
    try:
        return train_command.main(["--set", *SETTINGS, "data.cache='cache'", *settings, "--run", folder])
    finally:
        reset_config()


def losses(folder: str) -> list[float]:
    return [row["loss"] for row in read_rows(Path(folder)) if "loss" in row]


def test_a_mixture_is_reported_corpus_by_corpus(corpora: dict[str, float]) -> None:
    assert train("run", f"data.corpus={corpora}") == 0
    for row in read_rows(Path("run"), "valid"):
        assert row["loss"] == pytest.approx(0.75 * row["loss/a.jsonl"] + 0.25 * row["loss/b.jsonl"])
    summary = read_summary(Path("run"))
    assert summary is not None and summary.corpus_name == "75% a.jsonl + 25% b.jsonl"
    assert math.isfinite(summary.bits_per_byte) and math.isfinite(summary.unigram_entropy)
    events = b"".join(path.read_bytes() for path in Path("run").glob("events.*"))
    assert b"loss/valid/a.jsonl" in events and b"loss/valid/b.jsonl" in events


@pytest.mark.parametrize("data", ["data.cross_documents=False", "data.cross_documents=True"])
def test_a_run_that_was_interrupted_goes_on_exactly(corpora: dict[str, float], data: str) -> None:
    settings = (f"data.corpus={corpora}", data)
    assert train("whole", *settings) == 0
    assert train("broken", *settings) == 0
    for last in (Path("broken/summary.json"), *Path("broken/checkpoints").glob("step_00000008.*")):
        last.unlink()
    assert list(Path("broken/checkpoints").glob("step_00000004.*"))
    assert train("broken", *settings) == 0
    assert losses("broken") == losses("whole") and len(losses("whole")) == 6


def test_documents_that_are_kept_apart_change_the_loss_and_nothing_of_the_batches(corpora: dict[str, float]) -> None:
    assert train("apart", "data.corpus='a.jsonl'", "data.cross_documents=False") == 0
    assert train("together", "data.corpus='a.jsonl'") == 0
    apart, together = losses("apart"), losses("together")
    assert apart != together and apart == pytest.approx(together, rel=0.1)


def test_a_method_that_sees_later_tokens_cannot_keep_documents_apart(
    corpora: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["data.cache='cache'", "data.corpus='a.jsonl'", "data.cross_documents=False"]
    try:
        assert train_command.main(["--gin", METHOD, "--set", *SETTINGS, *given, "--run", "run", "--allow-leak"]) == 2
    finally:
        reset_config()
    assert "lets a token see later ones, so documents cannot be kept apart" in capsys.readouterr().err
