from __future__ import annotations

import torch
from helpers.random_models import random_model

from zoo.pretrained.names import Heads, copy_from_theirs, parts_of, split, to_theirs

HEADS = Heads(4, 2)


def test_there_and_back_is_the_same() -> None:
    weights = dict(random_model(num_kv_heads=2, qk_norm=True, tied=False).state_dict())
    theirs = to_theirs(weights, HEADS)
    for name, weight in weights.items():
        again = torch.empty_like(weight)
        parts = parts_of(name, HEADS)
        assert parts, name
        for part, stretch in zip(parts, split(again, parts), strict=True):
            copy_from_theirs(stretch, theirs[part.name], part)
        assert torch.equal(again, weight), name


def test_only_queries_and_keys_have_another_order() -> None:
    rows = torch.arange(8 * 4.0)[:, None]  # heads of 4: 4 of queries, 2 of keys, 2 of values
    theirs = to_theirs({"layers.7.attention.qkv": rows}, HEADS)
    q, k, v = (theirs[f"model.layers.7.self_attn.{name}_proj.weight"].flatten().tolist() for name in "qkv")
    assert q[:8] == [0, 2, 1, 3, 4, 6, 5, 7] and k[:4] == [16, 18, 17, 19] and v == list(range(24, 32))


def test_what_only_we_have_has_no_parts() -> None:
    assert parts_of("layers.0.residual.gain", HEADS) == parts_of("other", HEADS) == ()
