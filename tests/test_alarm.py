"""A run that is too good to be true is stamped; one that leaks by its own word is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from models import factory, random_model, tokens

from zoo import config, summary
from zoo.alarm import sees_the_future, too_good
from zoo.errors import RunError
from zoo.train import run

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


def test_figures_below_the_floor_raise_the_alarm() -> None:
    honest = {"bits_per_byte": 1.1, "accuracy": 0.4}
    assert too_good(honest, Corpus()) == ""
    assert "too good" in too_good(honest | {"bits_per_byte": 0.2}, Corpus())
    assert "too good" in too_good(honest | {"accuracy": 0.999}, Corpus())


def test_a_leak_is_seen_and_causal_methods_are_not_suspected() -> None:
    leaking = random_model(dtype=torch.float32, temporal_mixing=factory("temporal_mixing", "wr_9_log"))
    assert "sees the future" in sees_the_future(leaking, tokens(2, 12))
    for slot, method in (
        ("temporal_mixing", "wr_8_log"),
        ("temporal_mixing", "wr_9"),
        ("score_mixing", "v4_m1a"),
        ("residual", "v3_m1"),
    ):
        assert sees_the_future(random_model(dtype=torch.float32, **{slot: factory(slot, method)}), tokens(2, 12)) == ""


@pytest.fixture
def corpus(tmp_path: Path) -> list[str]:
    text = "\n\n".join(f"Sentence number {i} says that {i * i % 97} follows {i % 13}." for i in range(3000))
    (tmp_path / "text.txt").write_text(text)
    return [*SMALL, f'data.corpus = "{tmp_path / "text.txt"}"', f'data.cache = "{tmp_path / "cache"}"']


def test_a_declared_leak_is_refused_unless_allowed_and_then_stamped(corpus: list[str], tmp_path: Path) -> None:
    loaded = config.load(["wr_9_log"], corpus)
    with pytest.raises(RunError, match="--allow-leak"):
        run(loaded, tmp_path / "run", show=False)
    ended = run(loaded, tmp_path / "run", show=False, allow_leak=True)
    assert ended.leaks == ["temporal_mixing.wr_9_log"]
    assert "sees the future" in ended.alarm
    kept = summary.read(tmp_path / "run")
    assert kept is not None and kept.leaks == ended.leaks
    assert any(name == "LEAKS" for name, _ in summary.rows(kept, tmp_path))


def test_learned_weights_stand_in_the_summary(corpus: list[str], tmp_path: Path) -> None:
    ended = run(config.load(["v2_m3"], corpus), tmp_path / "run", show=False)
    assert ended.leaks == [] and ended.alarm == ""
    weights = ended.probes["layer_weights"]["2"]
    assert isinstance(weights, list) and len(weights) == 2 and sum(weights) == pytest.approx(1)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    assert "probes/layer_weights" in events.Tags()["images"]
    assert "probes/layer_weights/layer_02/01" in events.Tags()["scalars"]
