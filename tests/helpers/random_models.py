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


def attention_weights(block: Block) -> tuple[Tensor, ...]:
    """Those of q, k, v and the output; zeros, which nothing uses, where a method stands in place of attention."""
    layer, attention = block.layer, block.attention
    counts = [n * layer.head_dim for n in (layer.num_heads, layer.num_kv_heads, layer.num_kv_heads)]
    if attention is None:
        zeros = block.ffn.down.new_zeros
        return *(zeros(n, layer.width) for n in counts), zeros(layer.width, counts[0])
    return *attention.qkv.split(counts), attention.out


def reference_weights(built: LanguageModel) -> reference.Weights:
    layers = []
    for block in built.layers:
        q, k, v, out = attention_weights(block)
        gate, up = block.ffn.gate_up.chunk(2)
        layers.append(
            reference.LayerWeights(
                block.attention_norm.gain, q, k, v, out, block.ffn_norm.gain, gate, up, block.ffn.down
            )
        )
    heads, kv_heads = built.layers[0].layer.num_heads, built.layers[0].layer.num_kv_heads
    attending = [block.attention for block in built.layers if block.attention is not None]
    positions = attending[0].positions if attending else None
    return reference.Weights(
        embedding=built.embed.weight,
        layers=layers,
        final_norm=built.norm.gain,
        output=built.output_weight(),
        num_heads=heads,
        num_kv_heads=kv_heads,
        eps=built.norm.eps,
        rope_theta=positions.theta if isinstance(positions, Rotary) else None,
    )


def extension_of(block: Block, slot: str) -> Extension:
    return block.extension(slot)


def reference_method(built: LanguageModel, slot: str, method: str, **settings: object) -> reference.Method:
    params = [dict(extension_of(block, slot).named_parameters()) for block in built.layers]
    return reference.Method(method, params, settings)
