"""The first weights of a model, taken from a checkpoint of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoo.errors import SettingError
from zoo.model.block import Block
from zoo.model.language_model import LanguageModel
from zoo.pretrained.names import Heads
from zoo.pretrained.place import KEY
from zoo.pretrained.sizes import differences, read_sizes
from zoo.pretrained.version import VERSION, version
from zoo.pretrained.weights import load


def load_start(built: LanguageModel, checkpoint: str, settings: Mapping[str, Any]) -> list[str]:
    """Fill the core's weights from a checkpoint; extensions keep what they set themselves. What there is to say of it.

    A weight of the checkpoint whose place a method has taken, attention's or a norm's, is left out. `settings` are those that
    the model was built with, "model.depth" and the like: weights mean nothing under others.
    """
    sizes, ours = read_sizes(checkpoint), built.embed.weight.size(0)
    if wrong := differences(sizes, settings):
        raise SettingError(KEY, f" = {checkpoint!r} does not fit: {'; '.join(wrong.values())}")
    if (noted := settings.get(VERSION)) is not None and noted != version(checkpoint):
        raise SettingError(
            KEY, f" = {checkpoint!r} is another checkpoint than the one that was there before ({VERSION})"
        )
    if (rows := sizes.vocab_size) != ours:
        raise SettingError(
            KEY,
            f" = {checkpoint!r} has a vocabulary of {rows:,} and this model one of {ours:,}: leave data.tokenizer and"
            " data.pad_vocab unbound, so that they are the checkpoint's",
        )
    own = {id(p) for extension in built.extensions() for p in extension.parameters()}
    weights = {name: p for name, p in built.named_parameters() if id(p) not in own}
    first = built.layers[0]
    assert isinstance(first, Block)
    left_out = load(checkpoint, weights, Heads(first.layer.num_heads, first.layer.num_kv_heads))
    tied = built.output is None
    left_out = [name for name in left_out if not (tied and name == "lm_head.weight")]
    return [f"{checkpoint} has weights that have no place beside this method: {_listed(left_out)}"] if left_out else []


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
