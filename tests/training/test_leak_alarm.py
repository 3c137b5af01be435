"""A run whose figures are very good gets a remark; one that leaks by its own word is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.config.load import load_config
from zoo.errors import RunError
from zoo.runs.summary import read_summary, rows
from zoo.training.leak_alarm import too_good
from zoo.training.trainer import run

SMALL = [
    "train.steps = 3",
    "train.validate_every = 3",
    "data.vocab_size = 300",
    "data.length = 16",
    "model.depth = 2",
    "model.aspect = 8",
]


class Corpus:
    def compressed_bits(self, split: str) -> float:
        return 2.0


def test_figures_below_the_floor_are_worth_a_remark() -> None:
    honest = {"bits_per_byte": 1.1, "accuracy": 0.4}
    assert too_good(honest, Corpus()) == ""
    assert "0.200 bits per byte" in too_good(honest | {"bits_per_byte": 0.2}, Corpus())
    assert "accuracy of 99.9%" in too_good(honest | {"accuracy": 0.999}, Corpus())


@pytest.fixture
def corpus(tmp_path: Path) -> list[str]:
    text = "\n\n".join(f"Sentence number {i} says that {i * i % 97} follows {i % 13}." for i in range(3000))
    (tmp_path / "text.txt").write_text(text)
    return [*SMALL, f'data.corpus = "{tmp_path / "text.txt"}"', f'data.cache = "{tmp_path / "cache"}"']


def test_a_declared_leak_is_refused_unless_allowed_and_then_stamped(corpus: list[str], tmp_path: Path) -> None:
    loaded = load_config(["wr_9_log"], corpus)
    with pytest.raises(RunError, match="--allow-leak"):
        run(loaded, tmp_path / "run", show=False)
    ended = run(loaded, tmp_path / "run", show=False, allow_leak=True)
    assert ended.leaks == ["temporal_mixing.wr_9_log"]
    assert "sees the future" in ended.alarm
    kept = read_summary(tmp_path / "run")
    assert kept is not None and kept.leaks == ended.leaks
    assert any(name == "LEAKS" for name, _ in rows(kept, tmp_path))


def test_learned_weights_stand_in_the_summary(corpus: list[str], tmp_path: Path) -> None:
    ended = run(load_config(["v2_m3"], corpus), tmp_path / "run", show=False)
    assert ended.leaks == [] and ended.alarm == ""
    weights = ended.probes["layer_weights"]["2"]
    assert isinstance(weights, list) and len(weights) == 2 and sum(weights) == pytest.approx(1)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    assert "probes/layer_weights" in events.Tags()["images"]
