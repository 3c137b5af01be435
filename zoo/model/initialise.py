"""The first values of the core's weights."""

from __future__ import annotations

import hashlib
import math

import torch

from zoo.model.language_model import LanguageModel


def seed_of(seed: int, name: str) -> int:
    """The seed of one weight, or of one extension: no other depends on it."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:7], "big")


@torch.no_grad()
def initialise(built: LanguageModel, std: float, seed: int) -> None:
    """Fill the core's weights, each from a generator of its own name; extensions keep what they set themselves."""
    own = {id(p) for extension in built.extensions() for p in extension.parameters()}
    scale = 1 / math.sqrt(2 * len(built.layers))
    for name, parameter in built.named_parameters():
        if id(parameter) in own or parameter.dim() < 2 or parameter.is_meta:
            continue
        generator = torch.Generator().manual_seed(seed_of(seed, name))
        into_stream = name.endswith(("attention.out", "ffn.down"))
        values = torch.randn(parameter.shape, generator=generator) * (std * scale if into_stream else std)
        parameter.copy_(values)
