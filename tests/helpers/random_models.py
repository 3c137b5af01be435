"""Tiny models with random weights, and the same weights as the references want them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

import reference
import torch
from torch import Tensor

from zoo.extension import Extension
from zoo.model.block import Block
from zoo.model.build import model
from zoo.model.language_model import LanguageModel
from zoo.model.positions import Rotary
from zoo.slots import SLOTS

REFERENCE_SLOTS = {slot: slot.removesuffix("_mixing") for slot in SLOTS}  # ours → the references' names
METHODS = [(slot, entry.name) for slot in SLOTS for entry in entry_points(group=f"zoo.{slot}")]
VOCAB = 50


def factory(slot: str, method: str) -> Callable[..., Extension]:
    (entry,) = entry_points(group=f"zoo.{slot}", name=method)
    return entry.load()


def random_model(seed: int = 0, dtype: torch.dtype = torch.float64, **settings: object) -> LanguageModel:
    """A small model whose every parameter, a method's too, is random."""
    given = {"depth": 3, "width": 32, "head_dim": 8, "ffn_dim": 48, "tied": False} | settings
    built = model(VOCAB, given.pop("max_length", 16), **given).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=dtype) * 0.3)
    return built


def tokens(batch: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def reference_weights(built: LanguageModel) -> reference.Weights:
    """The core's weights; None for what a method leaves unbuilt."""
    first = built.layers[0].layer
    positions = next((block.attention.positions for block in built.layers if block.attention is not None), None)
    return reference.Weights(
        embedding=built.embed.weight,
        layers=[_layer_weights(block) for block in built.layers],
        final_norm=built.norm.gain,
        output=built.output_weight(),
        num_heads=first.num_heads,
        num_kv_heads=first.num_kv_heads,
        eps=built.norm.eps,
        rope_theta=positions.theta if isinstance(positions, Rotary) else None,
    )


def _layer_weights(block: Block) -> reference.LayerWeights:
    q = k = v = out = None
    if block.attention is not None:
        q, k, v = block.attention.qkv.split([n * block.attention.head_dim for n in block.attention.heads])
        out = block.attention.out
    norms = [getattr(norm, "gain", None) for norm in (block.attention_norm, block.ffn_norm)]
    gate, up = block.ffn.gate_up.chunk(2)
    return reference.LayerWeights(norms[0], q, k, v, out, norms[1], gate, up, block.ffn.down)


def extension_of(block: Block, slot: str) -> Extension:
    return block.extension(slot)


def reference_method(built: LanguageModel, slot: str, method: str, **settings: object) -> reference.Method:
    params = [dict(extension_of(block, slot).named_parameters()) for block in built.layers]
    return reference.Method(method, params, settings)
