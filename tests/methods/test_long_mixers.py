"""What mixers are for: at 4096 tokens each of them, in attention's place, takes less time than attention."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch
from helpers.random_models import factory

from zoo.extension import preset
from zoo.model.build import model
from zoo.model.language_model import LanguageModel

LENGTH = 4096
MIXERS = [
    "griffin", "rg_lru", "min_gru", "mamba", "linear_attention", "retention", "gla", "mamba2", "deltanet", "gated_deltanet",
    "cema",
]  # fmt: skip


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def block(**chosen: object) -> LanguageModel:
    """One layer at the width of `docs/performance.md`, and next to nothing around it."""
    return model(16, LENGTH, depth=1, width=256, head_dim=32, **chosen)


def seconds(built: LanguageModel, inputs: torch.Tensor) -> float:
    """Processor time of a forward and backward pass, which other work on the machine disturbs little."""
    begin = time.process_time()
    built.loss(inputs[:, :-1], inputs[:, 1:]).backward()
    return time.process_time() - begin


@pytest.mark.slow
def test_at_4096_tokens_every_mixer_is_faster_than_attention(one_thread: None) -> None:
    inputs = torch.randint(16, (1, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    arms = {id: block(temporal_mixing=preset(factory("temporal_mixing", id), site="attention")) for id in MIXERS}
    arms["attention"] = block()
    rounds = [{name: seconds(arm, inputs) for name, arm in arms.items()} for _ in range(2)]
    least = {name: min(times[name] for times in rounds) for name in arms}
    ratios = {id: least[id] / least["attention"] for id in MIXERS}
    print({id: round(ratio, 2) for id, ratio in ratios.items()})
    assert max(ratios.values()) < 1, ratios
