"""The first values of the core's weights."""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.errors import ConfigError
from zoo.extension import STARTS, Extension, name_of
from zoo.model.block import Block
from zoo.model.language_model import LanguageModel


class Deviations(NamedTuple):
    """The standard deviations of the first weights."""

    vocabulary: float  # of the embedding, and of the output projection
    hidden: float  # of the matrices of a block
    into_stream: float  # of those whose product is added to the stream

    @classmethod
    def of_base(cls, std: float, depth: float) -> Deviations:
        """One for all, but less into the stream, where 2 · depth of them add up."""
        return cls(std, std, std * (1 / math.sqrt(2 * depth)))

    def narrowed(self, width: float) -> Deviations:
        """Those of a model that is `width` times as wide, where hidden variances are so many times smaller."""
        return self._replace(hidden=self.hidden / math.sqrt(width), into_stream=self.into_stream / math.sqrt(width))


def seed_of(seed: int, name: str) -> int:
    """The seed of one weight, or of one extension: no other depends on it."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:7], "big")


@torch.no_grad()
def initialise(built: LanguageModel, deviations: Deviations, seed: int) -> None:
    """Fill the core's weights, each from a generator of its own name; extensions keep what they set themselves."""
    own = {id(p) for extension in built.extensions() for p in extension.parameters()}
    vocabulary = set(map(id, built.vocabulary_parameters()))
    for name, parameter in built.named_parameters():
        if id(parameter) in own or parameter.dim() < 2 or parameter.is_meta:
            continue
        into_stream = name.endswith(("attention.out", "ffn.down"))
        inner = deviations.into_stream if into_stream else deviations.hidden
        std = deviations.vocabulary if id(parameter) in vocabulary else inner
        generator = torch.Generator().manual_seed(seed_of(seed, name))
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * std)
    for block in built.layers:
        assert isinstance(block, Block)
        _scale(block)


def _scale(block: Block) -> None:
    """Multiply the start of the block's weights by what its extensions declare."""
    weights = _weights(block)
    for extension in (module for module in block.modules() if isinstance(module, Extension)):
        for name, factor in extension.start_scale.items():
            if name not in STARTS:
                raise ConfigError(
                    f"{name_of(extension)} scales the start of {name}, which a layer does not have; it has"
                    f" {', '.join(STARTS)}"
                )
            if name in weights:
                weights[name].mul_(factor)


def _weights(block: Block) -> dict[str, Tensor]:
    """The block's matrices by the names of `start_scale`; attention's are missing where it has none."""
    gate, up = block.ffn.gate_up.chunk(2)
    ffn = {"gate": gate, "up": up, "down": block.ffn.down}
    if block.attention is None:
        return ffn
    q, k, v = block.attention.qkv.split([n * block.attention.head_dim for n in block.attention.heads])
    return {"q": q, "k": k, "v": v, "out": block.attention.out, **ffn}
