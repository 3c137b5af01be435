"""Which tensors of a Llama checkpoint one of our weights is made of, and back.

Rotary positions turn pairs of a head. Ours stand side by side, theirs half a head apart, so the rows of queries and keys
are in another order there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

LAYER = re.compile(r"layers\.(\d+)\.(.+)")
OUTSIDE = {"embed.weight": "model.embed_tokens.weight", "norm.gain": "model.norm.weight", "output": "lm_head.weight"}


class Heads(NamedTuple):
    """How many heads of queries there are, and how many of keys and values."""

    queries: int
    keys: int


class Part(NamedTuple):
    """A tensor of theirs that is the whole of one of ours, or a stretch of its rows."""

    name: str
    share: int = 1  # its rows, as a multiple of a common unit
    turned: int = 0  # the heads in it that rotary positions turn


def parts_of(name: str, heads: Heads) -> tuple[Part, ...]:
    """What one of our weights is made of, from its first rows to its last; empty if only we have it."""
    if name in OUTSIDE:
        return (Part(OUTSIDE[name]),)
    if not (match := LAYER.fullmatch(name)):
        return ()
    start, (queries, keys) = f"model.layers.{match[1]}.", heads
    inside: dict[str, tuple[Part, ...]] = {
        "attention_norm.gain": (Part("input_layernorm.weight"),),
        "attention.qkv": (
            Part("self_attn.q_proj.weight", queries, queries),
            Part("self_attn.k_proj.weight", keys, keys),
            Part("self_attn.v_proj.weight", keys),
        ),
        "attention.out": (Part("self_attn.o_proj.weight"),),
        "attention.q_norm.gain": (Part("self_attn.q_norm.weight", turned=1),),
        "attention.k_norm.gain": (Part("self_attn.k_norm.weight", turned=1),),
        "ffn_norm.gain": (Part("post_attention_layernorm.weight"),),
        "ffn.gate_up": (Part("mlp.gate_proj.weight"), Part("mlp.up_proj.weight")),
        "ffn.down": (Part("mlp.down_proj.weight"),),
    }
    return tuple(part._replace(name=start + part.name) for part in inside.get(match[2], ()))


def split(weight: Tensor, parts: tuple[Part, ...]) -> list[Tensor]:
    """The stretches of one of our weights that its parts are, as views."""
    unit = weight.size(0) // sum(part.share for part in parts)
    return list(weight.split([part.share * unit for part in parts]))


def to_theirs(weights: Mapping[str, Tensor], heads: Heads) -> dict[str, Tensor]:
    """The weights of a plain block under the names of transformers."""
    theirs = {}
    for name, weight in weights.items():
        parts = parts_of(name, heads)
        for part, stretch in zip(parts, split(weight, parts) if parts else [], strict=True):
            theirs[part.name] = _halves(stretch, part.turned).contiguous()
    return theirs


@torch.no_grad()
def copy_from_theirs(into: Tensor, their: Tensor, part: Part) -> None:
    """Fill a stretch of one of our weights."""
    into.copy_(_pairs(their, part.turned))


def _halves(rows: Tensor, heads: int) -> Tensor:
    """Pairs, side by side in each head, half a head apart."""
    return rows.view(heads, -1, 2, rows[0].numel()).transpose(1, 2).reshape(rows.shape) if heads else rows


def _pairs(rows: Tensor, heads: int) -> Tensor:
    """Pairs, half a head apart in each head, side by side."""
    return rows.reshape(heads, 2, -1, rows[0].numel()).transpose(1, 2).reshape(rows.shape) if heads else rows
