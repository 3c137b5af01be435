"""Methods that are published relatives under another name, against the relatives' references."""

from __future__ import annotations

import pytest
import torch
from helpers.against_relatives import assert_equals_relative, assert_starts_as_relative
from helpers.random_models import METHODS, extension_of, factory, random_model, tokens
from reference.relatives import REFERENCES

from zoo.errors import ZooError
from zoo.extension import preset
from zoo.plugins.settings import settings_of

HOSTS = ["sequential", "parallel"]
# (depth, length, key heads of 4)
CASES = [(1, 1, 4), (2, 5, 2), (4, 7, 1)]


def nothing(block):
    return {}


def shift_of_wr_1(block):
    (gamma,) = extension_of(block, "temporal_mixing").parameters()
    return {"mu_ffn": torch.sigmoid(gamma).reshape(()).expand(block.layer.width)}


# relative: (its settings, slot, ours, our settings, adapter)
ALIASES = {
    "realformer": ({}, "score_mixing", "v4_m1", {}, nothing),
    "realformer_mean": ({}, "score_mixing", "v4_m3", {}, nothing),
    "two_hop": ({}, "residual", "v1_m3", {"first": "embedding"}, nothing),
    "token_shift": ({"sites": ("ffn",)}, "temporal_mixing", "wr_1", {}, shift_of_wr_1),
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("relative", ALIASES)
def test_equals_the_relatives_reference(relative, host):
    settings, slot, ours, our_settings, adapter = ALIASES[relative]
    for depth, length, kv_heads in CASES:
        extension = {slot: preset(factory(slot, ours), **our_settings)}
        shape = {"depth": depth, "num_kv_heads": kv_heads, "parallel": host == "parallel"}
        built = random_model(depth, **shape, **extension)
        assert_equals_relative(built, tokens(2, length), relative, adapter, **settings)


def test_the_comparison_sees_another_function():
    built = random_model(residual=factory("residual", "v1_m3"))
    with pytest.raises(AssertionError, match="not close"):
        assert_equals_relative(built, tokens(2, 5), "two_hop", nothing)  # first = "standard"


def test_the_comparison_sees_another_start():
    built = random_model()

    def constant(value):
        return lambda block: dict.fromkeys(["gamma_attention", "gamma_ffn"], torch.full((block.layer.width,), value))

    assert_starts_as_relative(built, "layer_scale", constant(0.1))
    with pytest.raises(AssertionError, match="layer 1"):
        assert_starts_as_relative(built, "layer_scale", constant(0.2))
    with pytest.raises(AssertionError, match="expected"):
        assert_starts_as_relative(built, "layer_scale", nothing)


COUNTS = [
    (slot, id, setting.name)
    for slot, id in METHODS
    if id in REFERENCES
    for setting in settings_of(factory(slot, id))
    if setting.annotation in (int, int | None)
]


def test_a_count_that_makes_no_sense_is_refused_by_name_or_works():
    """No setting of a published method gives a traceback of torch's, or a model that fails later."""
    for slot, id, setting in COUNTS:
        for value in (-1, 0, 99):
            method = preset(factory(slot, id), **{setting: value})
            try:
                built = random_model(depth=2, width=16, **{slot: method})
            except (ValueError, ZooError) as refusal:
                assert f"{setting} = {value}" in str(refusal), (id, setting, value)
            else:
                assert built(tokens(1, 5)).isfinite().all(), (id, setting, value)
