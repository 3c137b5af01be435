"""The published mixers against their references: logits, all gradients, first values; decoding, identities, bad settings."""

from __future__ import annotations

import pytest
import torch
from helpers.against_relatives import assert_equals_relative, assert_starts_as_relative
from helpers.mixer_adapters import ADAPTERS, adapter
from helpers.random_models import factory, random_model, tokens

from zoo.extension import preset
from zoo.model.build import model
from zoo.model.language_model import LanguageModel

Settings = dict[str, object]
FFN = {"site": "ffn"}
INPUT = {"site": "attention_input", "residual": False}
CHUNK = {"chunk": 4}


def both(**settings: object) -> tuple[Settings, Settings]:
    """Our settings and the reference's."""
    return settings, {name: value for name, value in settings.items() if name != "chunk"}


SETTINGS = {
    "griffin": [both(), both(width=16, blocks=2, ring="paper", **FFN), both(**INPUT)],
    "rg_lru": [both(), both(blocks=2, site="attention"), both(residual=True, ring="paper")],
    "min_gru": [both(), both(expansion=2, plain=True, **FFN), both(site="ffn", residual=False), both(**INPUT)],
    "mamba": [both(chunk=4), both(states=3, rank=2, **FFN), both(**INPUT)],
    "linear_attention": [
        both(**CHUNK), both(norm="rms", **FFN), ({"norm": "none", "phi": "identity", "heads": 1}, {"norm": None, "phi": "identity", "heads": 1}), both(**INPUT),
    ],
    "retention": [both(**CHUNK), both(linspace=True, heads=1, key_width=2, value_width=5, **FFN), both(key_width=6, **INPUT)],
    "gla": [both(**CHUNK), both(norm="rms", conv=True, heads=1, rank=3, **FFN), both(**INPUT)],
    "mamba2": [both(states=3, head_width=4, **CHUNK), ({}, {"states": 64}), both(states=2, head_width=8, **FFN), both(states=5, **INPUT)],
    "deltanet": [both(**CHUNK), both(negative=True, heads=1, **FFN), both(**INPUT)],
    "gated_deltanet": [both(**CHUNK), both(gate=False, heads=2, key_width=3, value_width=5, **FFN), both(negative=True, **INPUT)],
    "cema": [both(), both(site="ffn", modes=3), both(site="attention"), both(site="ffn", residual=False)],
}  # fmt: skip
# (depth, length, key heads of 4): one token, less than a chunk of 4, one more, and two chunks and three
CASES = [(1, 1, 4), (2, 5, 2), (2, 11, 1)]
SMALL_CHUNKS = {id: {"chunk": 4} for id in ADAPTERS if id not in ("griffin", "rg_lru", "min_gru", "cema")}


def mixer(id: str, **settings: object):
    return preset(factory("temporal_mixing", id), **settings)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("id", SETTINGS)
def test_equals_its_reference(id: str, parallel: bool) -> None:
    for i, (ours, theirs) in enumerate(SETTINGS[id]):
        for depth, length, kv_heads in CASES if i == 0 else CASES[1 + parallel :][:1]:
            shape = {"depth": depth, "num_kv_heads": kv_heads, "parallel": parallel}
            built = random_model(depth, **shape, temporal_mixing=mixer(id, **ours))
            assert_equals_relative(built, tokens(2, length), id, adapter(id), **theirs)


@pytest.mark.parametrize("id", SETTINGS)
def test_first_values(id: str) -> None:
    for ours, theirs in SETTINGS[id]:
        built = model(50, 16, depth=2, width=96, head_dim=24, ffn_dim=8, temporal_mixing=mixer(id, **ours))
        assert_starts_as_relative(built, id, adapter(id), **theirs)


def logits(built: LanguageModel, length: int = 9) -> torch.Tensor:
    with torch.no_grad():
        return built.eval()(tokens(2, length))


@pytest.mark.parametrize("id", [id for id in SETTINGS if id not in ("rg_lru", "cema")])
@pytest.mark.parametrize("site", ["ffn", "attention_input"])
def test_added_to_its_input_it_starts_as_the_baseline(id: str, site: str) -> None:
    sizes = {"depth": 2, "width": 32, "head_dim": 8, "ffn_dim": 24}
    built = model(50, 16, **sizes, temporal_mixing=mixer(id, site=site))
    assert torch.equal(logits(built), logits(model(50, 16, **sizes)))
    assert all(block.extension("temporal_mixing").starts_as == "baseline" for block in built.layers)
    other = model(50, 16, **sizes, temporal_mixing=mixer(id, site=site, residual=False))
    assert not torch.equal(logits(other), logits(built))
    assert other.layers[0].extension("temporal_mixing").starts_as is None
