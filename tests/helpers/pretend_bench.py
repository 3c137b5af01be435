"""Fixtures of the tests of a bench: a tiny one, and one whose runs only pretend."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from zoo.bench.launch import TRAIN, Ending, Failure, Task
from zoo.plugins.registry import installed
from zoo.plugins.source_hash import source_hash
from zoo.runs.summary import Summary

REGISTRY = installed()


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


class PretendLauncher:
    """Carries tasks out by pretending, at once and in this process; `perform` may be replaced."""

    def __init__(self) -> None:
        self.capacity = self.cores = 1
        self.measures = True
        self.titles: list[str] = []  # of the tasks that were carried out, in order
        self.perform: Callable[[Task], Failure | None] = self.pretend
        self.stopped = False
        self._endings: list[Ending] = []

    def submit(self, task: Task) -> None:
        self._endings.append(Ending(task, self.perform(task)))

    def wait(self, seconds: float) -> list[Ending]:
        endings, self._endings = self._endings, []
        return endings

    def stop(self) -> None:
        self._endings, self.stopped = [], True

    def fetch(self, folder: Path) -> None:
        pass

    def under_way(self, folder: Path) -> bool:
        return False

    def step(self, folder: Path) -> int:
        return 0

    def pretend(self, task: Task) -> None:
        """Leave what the task would leave; a later run has a higher loss."""
        self.titles.append(task.title)
        if task.module == TRAIN:
            leave_run(folder_of(task), 3.0 + len(self.titles) / 100, steps=4)
        else:
            for folder in task.arguments:
                (Path(folder) / "test.json").write_text('{"loss": 3.5}')


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> PretendLauncher:
    """The launcher of every bench in this test, whose runs only pretend; so does their corpus."""
    pretending = PretendLauncher()

    def local(capacity: int, devices: Sequence[str] = (), per_device: int = 1) -> PretendLauncher:
        pretending.capacity = capacity
        return pretending

    monkeypatch.setattr("zoo.bench.launch.LocalLauncher", local)
    monkeypatch.setattr("zoo.bench.freshness.corpus_fingerprint", lambda arm: "x")
    return pretending


@pytest.fixture
def quick(launcher: PretendLauncher) -> list[str]:
    """The titles of runs that only pretend, in order."""
    return launcher.titles


def folder_of(task: Task) -> Path:
    """The folder of the run that a task trains."""
    return Path(task.arguments[task.arguments.index("--run") + 1])


def leave_run(folder: Path, loss: float, steps: int, tokens: int | None = None) -> None:
    """Write what a run leaves, without the run."""
    per_step = 64 if tokens is None else tokens // steps
    summary = Summary(
        status="finished",
        methods=[],
        steps=steps,
        tokens=steps * per_step,
        parameters=1000,
        train_loss=loss,
        valid_loss=loss,
        best_valid_loss=loss,
        best_step=steps,
        perplexity=1.0,
        bits_per_byte=1.0,
        accuracy=0.1,
        unigram_entropy=6.0,
        tokens_per_second=100.0,
        peak_memory=10,
        seconds=1.0,
        skipped_steps=0,
        blew_up="",
        probes={},
        corpus="x",
        seed=1,
        world_size=1,
    )
    folder.mkdir(parents=True)
    summary.write(folder)
    (folder / "config.gin").write_text("")
    plugins = [{"slot": "residual", "id": "v1_m3", "code": source_hash(REGISTRY.claims("v1_m3")[0])}]
    (folder / "versions.json").write_text(json.dumps({"corpus": "x", "plugins": plugins}))
    rows = [("train", 2, 4.0), ("valid", 2, 4.0), ("train", steps, loss), ("valid", steps, loss)]
    lines = [
        {
            "kind": kind,
            "step": step,
            "tokens": step * per_step,
            "tokens_per_second": 10.0,
            "loss": loss if loss == loss else None,
        }
        for kind, step, loss in rows
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
