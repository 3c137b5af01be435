"""The parameters are as many as the catalogue counts."""

import math

import pytest

from . import REFERENCES
from .cases import setup

L, H, HKV, W = 5, 4, 2, 4  # depth, heads, key heads, head width
D, F = H * W, 12  # as `setup` has them
R, E, N, P = 20, 2 * D, 3, 8


def counts(id: str, **settings: object) -> list[int]:
    """Parameters of each layer."""
    model = REFERENCES[id].build(**settings)
    return [sum(math.prod(s) for s in model.shapes(layer).values()) for layer in setup(depth=L).layers]


EACH = {  # the same in every layer
    "rezero": ({}, 1),
    "layer_scale": ({}, 2 * D),
    "highway": ({}, 2 * (D**2 + D)),
    "laurel_rw": ({}, 2 * 2),
    "laurel_lr": ({"rank": 3}, 2 * 2 * 3 * D),
    "laurel_pa": ({"rank": 3, "kappa": 2}, 2 * (2 * 3 * D + 2)),
    "x0_lambda": ({}, 2),
    "hc_static": ({"n": 4}, 2 * 4 * 6),
    "hc_dynamic": ({"n": 4}, 2 * (4 * 6 + D * 6 + 2)),
    "mhc": ({"n": 4}, 2 * (24 * (4 * D + 1) + 3)),
    "frac_static": ({"n": 4}, 2 * (2 * 4**2 + 4)),
    "frac_dynamic": ({"n": 4}, 2 * (2 * 4**2 + 4 + D // 4 * (2 * 4 + 3) + 2)),
    "peri_ln": ({}, 2 * D),
    "post_norm": ({}, 2 * D),
    "gated_attention": ({}, D * H),
    "gated_attention_elementwise": ({}, D * H * W),
    "differential_v2": ({}, D * H * W + D * H),
    "talking_heads": ({}, 2 * H**2),
    "differential": ({}, 6 * W),
    "fox": ({}, D * H + H),
    "alibi": ({}, 0),
    "attention_sink": ({}, H),
    "ssmax": ({}, H),
    "canon_a": ({}, 4 * D),
    "canon_abcd": ({}, 4 * D + 4 * (H + 2 * HKV) * W + 4 * D + 8 * F),
    "token_shift": ({}, 3 * D + D),
    "token_shift_lora": ({}, 4 * D + 4 * 64 * D + 2 * D),
    "primer_dconv": ({}, 3 * (H + 2 * HKV) * W),
    "kv_shift": ({}, 2 * D * HKV),
    "griffin": ({"width": R}, 3 * D * R + 2 * R**2 // H + 10 * R + D),
    "rg_lru": ({}, 2 * D**2 + 4 * D),
    "min_gru": ({"expansion": 2}, 3 * 2 * D**2),
    "mamba": ({"rank": 2, "states": N}, 6 * D**2 + E * (2 + 2 * N + 2 + N + 7)),
    "linear_attention": ({}, 4 * D**2),
    "retention": ({}, 5 * D**2),
    "gla": ({}, 4 * D**2 + 24 * D + D // 2 + D),
    "mamba2": ({"head_width": P, "states": N}, 6 * D**2 + 2 * N * D + 5 * (E + 2 * N) + E + (D + 3) * E // P),
    "deltanet": ({}, 4 * D**2 + H * D + 12 * D + D // H),
    "gated_deltanet": ({}, 6 * D**2 + 2 * H * D + 12 * D + 2 * H + 6),
    "cema": ({}, 67 * D),
}


@pytest.mark.parametrize("id", EACH)
def test_the_same_in_every_layer(id):
    settings, count = EACH[id]
    assert counts(id, **settings) == [count] * L


def test_that_grow_with_depth():
    assert sum(counts("denseformer")) == L * (L + 3) // 2
    output = {1: L + 1, 2: D * (L + 1), 3: D * (L + 2)}
    for version, each in {1: lambda t: t, 2: lambda t: D * t, 3: lambda t: D * (t + 1)}.items():
        assert sum(counts(f"grn_v{version}")) == sum(each(t) for t in range(1, L + 1)) + output[version]
    assert sum(counts("dca")) == sum(3 * D * (t + 1) for t in range(1, L + 1)) + output[3]
    assert counts("dca", kappa=1)[:-1] == [3 * D * (min(t, 3) + 1) for t in range(1, L)]
    assert counts("attnres") == [2 * D] * (L - 1) + [3 * D]
    assert counts("lime") == [0] + [HKV**2 * m for m in range(2, L + 1)]
    ways = [4 * (i + 1) for i in range(1, L)]
    assert counts("mudd")[:-1] == [D * h + h * h + h for h in ways]
    assert counts("mudd")[-1] == D * 4 * (L + 1) + 4 * (L + 1) ** 2 + L + 1


def test_that_stand_in_some_layers():
    assert counts("unet_skips") == [0, 0, 0, 1, 1]
    assert counts("backout") == [0, 0, 0, 0, 1]
    assert counts("smear") == [13, 0, 0, 0, 0]
    assert counts("value_residual_learned") == [0, 2, 2, 2, 2]
    assert counts("value_residual_learned", layers=(4, 5)) == [0, 0, 0, 2, 2]
    kernels, rest = 2 * 66 * H, 2 * H**2 + W + W + 1
    assert counts("mta") == [rest, rest, rest + kernels, rest, rest]
    assert counts("retention", every=3) == [5 * D**2, 5 * D**2, 0, 5 * D**2, 5 * D**2]
