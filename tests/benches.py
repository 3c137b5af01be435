"""Fixtures of the tests of a bench: a tiny one, and one whose runs only pretend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zoo import bench, plugins
from zoo.bench import Pool
from zoo.summary import Summary
from zoo.versions import code

REGISTRY = plugins.registry()


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    text = "\n\n".join(f"Sentence number {i} says that {i * i % 97} follows {i % 13}." for i in range(2000))
    (tmp_path / "text.txt").write_text(text)
    return [
        "suite.costs = False",
        "train.steps = 4",
        "train.validate_every = 2",
        "train.save_every = 4",
        "data.vocab_size = 300",
        "data.length = 16",
        "data.batch_size = 4",
        "model.depth = 2",
        "model.aspect = 8",
        f'data.corpus = "{tmp_path / "text.txt"}"',
        f'data.cache = "{tmp_path / "cache"}"',
    ]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs that only pretend: what they were called, in order."""
    told: list[str] = []

    def process(pool: Pool, command: list[str], title: str) -> None:
        told.append(title)
        if command[0] == "zoo.heldout":
            for folder in command[1:]:
                (Path(folder) / "test.json").write_text('{"loss": 3.5}')
            return
        pretend(Path(command[4]), 3.0 + len(told) / 100, steps=4)

    monkeypatch.setattr(Pool, "_process", process)
    monkeypatch.setattr(bench, "fingerprint", lambda arm: "x")
    return told


def pretend(folder: Path, loss: float, steps: int) -> None:
    """What a run leaves, without the run."""
    summary = Summary(
        "finished", [], steps, steps * 64, 1000, loss, loss, loss, steps, 1.0, 1.0, 0.1, 6.0, 100.0, 10, 1.0, 0, "", {},
        "x", 1, 1,
    )  # fmt: skip
    folder.mkdir(parents=True)
    summary.write(folder)
    (folder / "config.gin").write_text("")
    written = [{"slot": "residual", "id": "v1_m3", "code": code(REGISTRY.claims("v1_m3")[0])}]
    (folder / "versions.json").write_text(json.dumps({"corpus": "x", "plugins": written}))
    rows = [("train", 2, 4.0), ("valid", 2, 4.0), ("train", steps, loss), ("valid", steps, loss)]
    lines = [
        {
            "kind": kind,
            "step": step,
            "tokens": step * 64,
            "tokens_per_second": 10.0,
            "loss": loss if loss == loss else None,
        }
        for kind, step, loss in rows
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
