"""The first values of the core's weights."""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

from zoo.errors import ConfigError
from zoo.extension import STARTS, Extension, name_of
from zoo.model.block import Block
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
