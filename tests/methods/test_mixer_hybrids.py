"""Hybrids of a published mixer and attention: their Gin files, the reference's `every`, methods inside attention beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from helpers.against_relatives import assert_equals_relative
from helpers.mixer_adapters import adapter
from helpers.random_models import extension_of, factory, random_model, tokens
from torch import Tensor

from zoo.config.load import load_config
from zoo.errors import ConfigError
from zoo.extension import is_plain, preset
from zoo.generation.generate import state_bag
from zoo.model.block import Block
from zoo.model.language_model import LanguageModel

ROOT = Path(__file__).resolve().parents[2]
IN_ATTENTIONS_PLACE = [
    "griffin", "rg_lru", "min_gru", "mamba", "linear_attention", "retention", "gla", "mamba2", "deltanet", "gated_deltanet",
]  # fmt: skip
# Where a default is another one than the reference's: our settings, the reference's.
DEFAULTS = {"rg_lru": ({"site": "attention"}, {"site": "attention"}), "mamba2": ({}, {"states": 64})}


def hybrid_of(id: str, mixers: int) -> tuple[object, ...]:
    """The mixer in so many layers, attention in the next."""
    settings, _ = DEFAULTS.get(id, ({}, {}))
    return (*[preset(factory("temporal_mixing", id), **settings)] * mixers, None)


@torch.no_grad()
def assert_decodes(built: LanguageModel, tolerance: float, plan: Sequence[int] = (4, 1, 4)) -> Tensor:
    """Fail unless decoding in parts gives the logits of the whole pass, which are returned."""
    whole, bag, rows = built.eval()(tokens(2, sum(plan))), state_bag(sum(plan)), []
    for part in tokens(2, sum(plan)).split(list(plan), dim=1):
        rows.append(built(part, state_bag=bag))
        bag.increment_step_nr(part.size(1))
    torch.testing.assert_close(torch.cat(rows, dim=1), whole, rtol=tolerance, atol=tolerance)
    return whole


@pytest.mark.parametrize("id", IN_ATTENTIONS_PLACE)
def test_presets_attend_in_every_second_third_and_fourth_layer(id: str) -> None:
    card = (ROOT / "plugins" / "cards" / f"{id}.md").read_text()
    for mixers in (1, 2, 3):
        config = load_config([f"hybrids/{id}_{mixers}_1", "sizes/tiny"], ["model.depth=4"])
        built = config.build("model", vocab_size=50, max_length=16)
        attends = [block.attention is not None for block in built.layers]
        assert attends == [(i + 1) % (mixers + 1) == 0 for i in range(4)]
        assert_decodes(built, 1e-4)
        assert f"{id}_{mixers}_1.gin" in card


@pytest.mark.parametrize("id", [*IN_ATTENTIONS_PLACE, "cema"])
def test_equals_the_reference_with_every_nth_layer_plain(id: str) -> None:
    named, (_, theirs) = adapter(id), DEFAULTS.get(id, ({}, {}))

    def of_layer(block: Block) -> dict[str, Tensor]:
        return {} if is_plain(extension_of(block, "temporal_mixing")) else named(block)

    for every in (2, 3, 4):
        built = random_model(depth=4, num_kv_heads=2, temporal_mixing=hybrid_of(id, every - 1))
        assert_equals_relative(built, tokens(2, 5), id, of_layer, every=every, **theirs)


INSIDE = [
    ("score_mixing", "v4_m1"), ("score_mixing", "v4_m5"), ("head_mixing", "value_residual"), ("head_mixing", "gated_attention"),
]  # fmt: skip


@pytest.mark.parametrize("slot, id", INSIDE)
@pytest.mark.parametrize("mixing", ["mamba2", "gated_deltanet"])
def test_with_a_method_inside_attention(mixing: str, slot: str, id: str) -> None:
    """It acts in the layers that attend; the model decodes, sees no later token, and learns in all of its layers."""
    chosen = {"depth": 4, "temporal_mixing": hybrid_of(mixing, 1)}
    built, alone = random_model(**chosen, **{slot: factory(slot, id)}), random_model(**chosen).eval()
    parts = [extension_of(block, slot) for block in built.layers]
    assert [is_plain(part) for part in parts] == [True, False, True, False]
    built.loss(tokens(2, 9), tokens(2, 9, seed=1)).backward()
    for name, parameter in built.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max(), name
    whole, host = assert_decodes(built, 1e-10), alone.state_dict()
    alone.load_state_dict({name: value for name, value in built.state_dict().items() if name in host})
    with torch.no_grad():
        assert (alone(tokens(2, 9)) - whole).abs().max() > 1e-6
        later = tokens(2, 9).clone()
        later[:, 6:] = (later[:, 6:] + 1) % 50
        torch.testing.assert_close(built(later)[:, :6], whole[:, :6], rtol=1e-10, atol=1e-10)


def test_what_runs_earlier_layers_again_is_refused_beside_one() -> None:
    sentence = "runs earlier layers again .* stands in place of attention in some layers"
    with pytest.raises(ConfigError, match=sentence):
        random_model(depth=4, temporal_mixing=hybrid_of("mamba2", 1), residual=factory("residual", "v3_m1"))
