"""Training steps, evaluation and decoding on random tokens, which cost what real ones do and teach nothing."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zoo.bench.measured_process import Step

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.config.configuration import Config
    from zoo.data.batches import Data
    from zoo.model.language_model import LanguageModel
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
    from zoo.training.ranks import alone
    from zoo.training.setup import build_model, new_session
    from zoo.training.step import train_step

    config, data = _loaded(text)
    settings: Settings = dataclasses.replace(config.build("train"), lr=0.0)
    ranks = alone(settings.device)
    model = build_model(config, settings, ranks.device, data.vocab_size, data.length)
    session = new_session(settings, ranks, Path(), cast("Data", data), model)
    return functools.partial(train_step, session)


def evaluation(text: str) -> Step:
    """The evaluation of one batch, without gradients."""
    import torch

    model, data = _evaluated_model(text)
    tokens = next(data.train(0)).to(model.output_weight().device)

    def evaluate() -> None:
        with torch.no_grad():
            model.evaluate(tokens[:, :-1], tokens[:, 1:])

    return evaluate


def decoding(text: str) -> Step:
    """The decoding of one row of as many tokens as a row of training has, one by one, with the model's state."""
    model, data = _evaluated_model(text)
    return functools.partial(_decode, model, data)


def state_size(text: str) -> Callable[[], float]:
    """The bytes of state that decoding a row keeps, per token."""
    model, data = _evaluated_model(text)
    return lambda: _decode(model, data) / data.length


def _decode(model: LanguageModel, data: RandomTokens) -> float:
    """Decode a row; the bytes of state at its end."""
    import torch

    from zoo.generation.generate import state_bag

    row = next(data.train(0))[:1].to(model.output_weight().device)
    bag = state_bag(data.length)
    with torch.no_grad():
        for at in range(data.length):
            model(row[:, at : at + 1], state_bag=bag)
            bag.increment_step_nr()
    return float(bag.size_bytes())


def _evaluated_model(text: str) -> tuple[LanguageModel, RandomTokens]:
    from zoo.training.ranks import alone
    from zoo.training.setup import build_model

    config, data = _loaded(text)
    settings: Settings = config.build("train")
    model = build_model(config, settings, alone(settings.device).device, data.vocab_size, data.length)
    return model.eval(), data


def _loaded(text: str) -> tuple[Config, RandomTokens]:
    """The configuration that a text is, and tokens of its shape."""
    from zoo.config.load import load_config
    from zoo.data.tokenizer import configured_size

    with tempfile.NamedTemporaryFile("w", suffix=".gin", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        config = load_config([file.name])
    vocab_size = configured_size({**config.defaults, **config.values})
    return config, RandomTokens(vocab_size, config.get("data.batch_size"), config.get("data.length"))
