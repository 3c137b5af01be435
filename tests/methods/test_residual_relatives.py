"""Published residual methods against their references: logits, all gradients, first values; and bad settings."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from helpers.against_relatives import assert_equals_relative, assert_starts_as_relative
from helpers.random_models import extension_of, factory, random_model, tokens
from helpers.residual_adapters import adapter
from reference.relatives import REFERENCES

from zoo.errors import ZooError
from zoo.extension import ATTENTION, FFN, Extension, preset
from zoo.model.build import model
from zoo.model.language_model import LanguageModel

# id: every set of (our settings, the reference's) that is compared
SAME: tuple[dict[str, object], dict[str, object]] = ({}, {})


def both(**settings: object) -> tuple[dict[str, object], dict[str, object]]:
    return settings, settings


METHODS = {
    "rezero": [SAME, both(shared=False, prenorm=True)],
    "layer_scale": [SAME, both(epsilon=0.3)],
    "x0_lambda": [SAME],
    "x0_lambda_nanochat": [({}, {"lambdas": (1.15, 1.05), "mus": (0.2, 0.05)})],
    "highway": [SAME, both(coupled=False, scalar=True, bias=-1.0)],
    "unet_skips": [SAME, both(sigmoid=True)],
    "backout": [SAME, ({"layer_taken": 0, "value": 0.2}, {"layer": 0, "value": 0.2})],
    "laurel_rw": [SAME],
    "laurel_lr": [both(rank=3)],
    "laurel_pa": [both(rank=3), ({"rank": 0, "kappa": 2}, {"low_rank_map": False, "kappa": 2})],
    "denseformer": [SAME],
    "mudd": [SAME, both(rounded=True)],
    "mudd_dynamic": [SAME],
    "mudd_static": [SAME],
    "mudd_multiway_static": [SAME],
    "attnres": [SAME],
    "attnres_block": [SAME],
    "grn_v1": [SAME],
    "grn_v2": [SAME],
    "grn_v3": [SAME, both(normed=True)],
    "dca": [({}, {}), both(kappa=1), both(kappa=2, normed=True)],
    "hc_static": [both(n=3)],
    "hc_dynamic": [SAME, both(n=1), both(n=2, affine=True)],
    "mhc": [both(n=2), both(n=3, iterations=4, head=True)],
    "frac_static": [({}, {"affine": False}), ({"n": 4}, {"affine": False, "n": 4})],
    "frac_dynamic": [SAME, both(n=4, affine=False)],
    "peri_ln": [SAME, both(embedding_norm=True)],
    "post_norm": [SAME],
    "olmo_norm": [SAME],
    "residual_dual": [SAME],
    "deepnorm": [SAME],
    "two_hop": [SAME],
}
RELATIVE = {"x0_lambda_nanochat": "x0_lambda"}
# (depth, length, key heads of 4)
CASES = [(1, 1, 4), (2, 5, 2), (4, 7, 1)]
ONLY_DEEP = {  # settings that small depths refuse
    "denseformer": [both(dilation=2), both(period=2), both(dilation=3, period=2)],
    "attnres_block": [both(size=4), both(size=6)],
}


def built_with(id: str, settings: dict[str, object], **shape: object):
    return {"residual": preset(factory("residual", id), **settings), **shape}


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("id", METHODS)
def test_equals_its_reference(id: str, parallel: bool) -> None:
    compared = [(case, settings) for settings in METHODS[id] for case in CASES]
    compared += [(CASES[-1], settings) for settings in ONLY_DEEP.get(id, [])]
    for (depth, length, kv_heads), (ours, theirs) in compared:
        shape = {"depth": depth, "num_kv_heads": kv_heads, "parallel": parallel}
        built = random_model(depth, **built_with(id, ours, **shape))
        assert_equals_relative(built, tokens(2, length), RELATIVE.get(id, id), adapter(id, built), **theirs)


@pytest.mark.parametrize("id", METHODS)
def test_starts_as_its_reference_says(id: str) -> None:
    for depth, parallel in ((1, True), (4, False)):
        ours, theirs = METHODS[id][-1] if depth == 4 else METHODS[id][0]
        built = model(50, 16, width=32, head_dim=8, **built_with(id, ours, depth=depth, parallel=parallel))
        assert_starts_as_relative(built, RELATIVE.get(id, id), adapter(id, built), **theirs)


def test_deepnorm_starts_its_weights_smaller() -> None:
    def first_weights(**slots: object) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        return dict(model(50, 16, depth=3, width=32, head_dim=8, **slots).named_parameters())

    plain, deep = first_weights(), first_weights(residual=factory("residual", "deepnorm"))
    divisor = REFERENCES["deepnorm"].build().start_divisor(3)
    for name in ("layers.1.attention.out", "layers.1.ffn.gate_up", "layers.1.ffn.down"):
        torch.testing.assert_close(deep[name] * divisor, plain[name])
    q, v = slice(0, 32), slice(64, 96)
    torch.testing.assert_close(deep["layers.1.attention.qkv"][q], plain["layers.1.attention.qkv"][q])
    torch.testing.assert_close(deep["layers.1.attention.qkv"][v] * divisor, plain["layers.1.attention.qkv"][v])


@pytest.mark.parametrize("id", METHODS)
def test_no_parameter_stays_at_its_start(id: str) -> None:
    """After two steps of training every parameter has a gradient: no start is a dead one."""
    torch.manual_seed(0)
    built = model(50, 16, width=16, head_dim=8, **built_with(id, {}, depth=3))
    ids = tokens(2, 9)
    for _ in range(3):
        built.zero_grad()
        built.loss(ids[:, :-1], ids[:, 1:]).backward()
        with torch.no_grad():
            for parameter in built.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad
    for block in built.layers:
        extension = extension_of(block, "residual")
        dead = {name for name, p in extension.named_parameters() if p.grad is None or not p.grad.any()}
        assert dead == extension.idle, f"layer {block.layer.number}"


# --- identities


@pytest.mark.parametrize("parallel", [False, True])
def test_what_is_said_to_start_as_the_baseline_does(parallel: bool) -> None:
    """In every direction: the references' table, what the methods declare, and what they compute."""
    shape = {"depth": 4, "width": 32, "head_dim": 8, "ffn_dim": 48, "init_std": 0.3, "parallel": parallel}
    plain, ids = model(50, 16, **shape).double(), tokens(2, 6)
    for id in METHODS:
        built = model(50, 16, **shape, residual=factory("residual", id)).double()
        declared = factory("residual", id).starts_as or extension_of(built.layers[0], "residual").starts_as
        assert declared == REFERENCES[id].starts_as, id
        equal = torch.allclose(built(ids), plain(ids), rtol=1e-6, atol=1e-6)
        assert equal == (declared == "baseline"), id


def test_blocks_of_one_sublayer_are_attention_residuals() -> None:
    one, other = (
        random_model(**built_with(id, s, depth=4)) for id, s in (("attnres", {}), ("attnres_block", {"size": 1}))
    )
    torch.testing.assert_close(one(tokens(2, 6)), other(tokens(2, 6)))


def test_static_sums_are_denseformers() -> None:
    dense, mudd = (random_model(**built_with(id, {}, depth=4)) for id in ("denseformer", "mudd_static"))
    mudd.load_state_dict(dense.state_dict(), strict=False)
    parts = [extension_of(block, "residual") for block in dense.layers]
    alphas = [*(part.alpha for part in parts[1:]), parts[-1].alpha_output]
    with torch.no_grad():
        for block, alpha in zip(mudd.layers, alphas, strict=True):
            extension_of(block, "residual").a.copy_(alpha[None])
    torch.testing.assert_close(dense(tokens(2, 6)), mudd(tokens(2, 6)))


def test_one_part_is_one_stream() -> None:
    one, other = (
        random_model(**built_with(id, {"n": 1, "affine": False}, depth=3)) for id in ("frac_dynamic", "hc_dynamic")
    )
    torch.testing.assert_close(one(tokens(2, 6)), other(tokens(2, 6)))


def copied(source: LanguageModel, target: LanguageModel, tables: Callable[[Extension, Extension], None]) -> None:
    """Give `target` the host's weights of `source`, and fill its methods' parameters from the source's by `tables`."""
    target.load_state_dict({k: v for k, v in source.state_dict().items() if ".residual." not in k}, strict=False)
    with torch.no_grad():
        for one, other in zip(source.layers, target.layers, strict=True):
            tables(extension_of(one, "residual"), extension_of(other, "residual"))


def grns(part: Extension) -> list[torch.nn.Module]:
    return [*part.inputs, *([] if part.output is None else [part.output])]


def test_weights_that_are_constant_over_channels_are_numbers() -> None:
    numbers, vectors = (random_model(seed, **built_with(f"grn_v{seed}", {}, depth=3)) for seed in (1, 2))

    def fill(one: Extension, other: Extension) -> None:
        for small, large in zip(grns(one), grns(other), strict=True):
            large.b.copy_(small.b[:, None].expand_as(large.b))

    copied(numbers, vectors, fill)
    torch.testing.assert_close(numbers(tokens(2, 6)), vectors(tokens(2, 6)))


def test_dca_whose_three_sums_are_one_is_grn_v3() -> None:
    one, three = (random_model(seed, **built_with(id, {}, depth=3)) for seed, id in enumerate(("grn_v3", "dca")))

    def fill(small: Extension, large: Extension) -> None:
        for grn in large.inputs:
            grn.load_state_dict(small.inputs[0].state_dict())
        if small.output is not None:
            large.output.load_state_dict(small.output.state_dict())

    copied(one, three, fill)
    torch.testing.assert_close(one(tokens(2, 6)), three(tokens(2, 6)))


def test_bounded_weights_are_skip_gains() -> None:
    bounded, free = (random_model(seed, **built_with(id, {})) for seed, id in enumerate(("laurel_rw", "skip_gains")))

    def fill(one: Extension, other: Extension) -> None:
        for site in (ATTENTION, FFN):
            alpha, beta = 2 * torch.softmax(one.w[site], dim=0)
            getattr(other, f"{site}_gain").copy_(alpha)
            getattr(other, f"skip_{site}").copy_(beta)

    copied(bounded, free, fill)
    torch.testing.assert_close(bounded(tokens(2, 6)), free(tokens(2, 6)))


def test_two_hop_is_v1_m6_with_the_embedding() -> None:
    one = random_model(**built_with("two_hop", {}))
    other = random_model(**built_with("v1_m6", {"first": "embedding"}))
    torch.testing.assert_close(one(tokens(2, 6)), other(tokens(2, 6)))


# --- mHC's streams


@pytest.mark.parametrize("id", ["mhc", "hc_dynamic"])
def test_streams_separate_in_training(id: str) -> None:
    """With a start that is alike for all streams they would stay equal for ever: 0 here, but for rounding."""
    torch.manual_seed(0)
    built = model(50, 16, depth=2, width=32, head_dim=8, residual=factory("residual", id))
    ids = tokens(4, 12)
    optimiser = torch.optim.AdamW(built.parameters(), lr=0.01)
    for _ in range(12):
        optimiser.zero_grad()
        built.loss(ids[:, :-1], ids[:, 1:]).backward()
        optimiser.step()
    closing = extension_of(built.layers[-1], "residual")
    seen: list[torch.Tensor] = []
    closing.close = lambda stream: seen.append(stream) or stream.mean(dim=2)
    built(ids)
    streams = seen[0]
    apart = (streams - streams.mean(dim=2, keepdim=True)).norm() / streams.norm()
    assert apart > 1e-3


# --- bad settings


@pytest.mark.parametrize(
    ("id", "settings", "sentence"),
    [
        ("hc_dynamic", {"n": 0}, "n = 0 must be"),
        ("mhc", {"n": 1}, "n = 1 must be two streams or more"),
        ("mhc", {"iterations": 0}, "iterations = 0"),
        ("frac_dynamic", {"n": 5}, "n = 5 must be a number of parts that divides"),
        ("frac_static", {"n": 0}, "n = 0"),
        ("laurel_lr", {"rank": 33}, "rank = 33 must be from 1 to the model's width, which is 32"),
        ("laurel_lr", {"rank": 0}, "rank = 0"),
        ("laurel_pa", {"kappa": 0}, "kappa = 0"),
        ("denseformer", {"period": 4}, "period = 4 must be from 1 to the model's depth, which is 3"),
        ("denseformer", {"dilation": 0}, "dilation = 0"),
        ("attnres_block", {"size": 3}, "size = 3 must be 1 or an even number"),
        ("attnres_block", {"size": 8}, "size = 8"),
        ("dca", {"kappa": -1}, "kappa = -1"),
        ("backout", {"layer_taken": 3}, "layer_taken = 3"),
        ("layer_scale", {"epsilon": -0.1}, "epsilon = -0.1 must be above 0"),
        ("x0_lambda", {"mu_lr_factor": -1.0}, "mu_lr_factor = -1.0 must be a multiple of the learning rate"),
        ("x0_lambda_nanochat", {"lambda_lr_factor": math.nan}, "lambda_lr_factor = nan"),
    ],
)
def test_bad_settings_are_refused_by_name(id: str, settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ZooError, match=sentence):
        random_model(**built_with(id, settings))
