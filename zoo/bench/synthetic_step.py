"""Training steps on random tokens, which cost what real ones do and teach nothing."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zoo.bench.measured_process import Step

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.data.batches import Data
    from zoo.training.settings import Settings


@dataclasses.dataclass(frozen=True)
class RandomTokens:
    """The part of the data that a step needs, without a corpus."""

    vocab_size: int
    batch_size: int
    length: int

    def train(self, seed: int, rank: int = 0, world: int = 1) -> Iterator[Tensor]:
        import torch

        drawn = torch.Generator().manual_seed(seed)
        return itertools.repeat(torch.randint(self.vocab_size, (self.batch_size, self.length + 1), generator=drawn))

    def passes(self, tokens: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Blocks as they are: random tokens are of no document."""
        return [(tokens, targets)]


def training(text: str) -> Step:
    """The training step of a configuration, as zoo-train makes it. The learning rate is zero, so that nothing blows up."""
    from zoo.config.load import load_config
    from zoo.data.tokenizer import configured_size
    from zoo.training.ranks import alone
    from zoo.training.setup import build_model, new_session
    from zoo.training.step import train_step

    with tempfile.NamedTemporaryFile("w", suffix=".gin", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        config = load_config([file.name])
    settings: Settings = dataclasses.replace(config.build("train"), lr=0.0)
    vocab_size = configured_size({**config.defaults, **config.values})
    data = RandomTokens(vocab_size, config.get("data.batch_size"), config.get("data.length"))
    ranks = alone(settings.device)
    model = build_model(config, settings, ranks.device, data.vocab_size, data.length)
    session = new_session(settings, ranks, Path(), cast("Data", data), model)
    return functools.partial(train_step, session)
