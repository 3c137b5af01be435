"""Every method equals the naive reference that was written from the catalogue alone: logits and all gradients."""

from __future__ import annotations

import pytest
import reference
import torch
from helpers.random_models import (
    METHODS,
    REFERENCE_SLOTS,
    extension_of,
    factory,
    random_model,
    reference_method,
    reference_weights,
    tokens,
)
from reference.relatives import REFERENCES

from zoo.errors import ZooError
from zoo.extension import preset
from zoo.kernels import attend, blocked_attention, shared_pattern

# (depth, length, batch, key/value heads of 4): one layer, one token, as many tokens as taps, one more, and more
CASES = [(1, 1, 2, 4), (1, 7, 1, 4), (2, 2, 2, 4), (2, 5, 3, 2), (3, 4, 2, 4), (4, 11, 2, 1), (5, 16, 2, 4)]
HOSTS = ["sequential", "parallel"]
# Methods of the notes; published ones have references of another kind.
OURS = [(slot, i) for slot, theirs in REFERENCE_SLOTS.items() for i in reference.METHODS.get(theirs, ())]
# Settings that a reference reads from the shapes and values of the parameters, or that change no function.
UNNAMED = {"checkpoint", "n", "rank", "rnn_dim"}
UNNAMED_OF = {method: {"start"} for _, method in METHODS if method.startswith("skip_")}


def draw_kernels(params: list[dict[str, torch.Tensor]]) -> None:
    """The fresh random kernels that the next pass of wr_8_log, with n = 2, will draw, handed to its reference."""
    state, bound = torch.get_rng_state(), 2**-0.5
    for layer in params:
        drawn = torch.empty(3, dtype=torch.float64).uniform_(-bound, bound)
        layer.update(kernel=drawn[:-1], bias=drawn[-1])
    torch.set_rng_state(state)


def assert_same(slot: str, method: str, host: str, case: tuple[int, ...], **settings: object) -> None:
    depth, length, batch, kv_heads = case
    build = factory(slot, method)
    if settings:
        build = preset(build, **settings)
    shape = {"depth": depth, "num_kv_heads": kv_heads, "parallel": host == "parallel"}
    built = random_model(depth, **shape, **{slot: build})
    if method == "wr_8_3_log":
        settings = {"groups": 1} | settings
    settings = {name: value for name, value in settings.items() if name not in UNNAMED | UNNAMED_OF.get(method, set())}
    naive_method = reference_method(built, slot, method, **settings)
    if method in ("wr_8_log", "wr_8_1_log"):
        draw_kernels(naive_method.params)
    inputs = tokens(batch, length)
    ours = built(inputs)
    theirs = reference.logits(inputs, reference_weights(built), host=host, **{REFERENCE_SLOTS[slot]: naive_method})
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=ours.dtype)
    parameters = dict(built.named_parameters())
    for name, mine, naive in zip(
        parameters,
        torch.autograd.grad((ours * weights).sum(), parameters.values(), allow_unused=True),
        torch.autograd.grad((theirs * weights).sum(), parameters.values(), allow_unused=True),
        strict=True,
    ):
        zero = torch.zeros_like(parameters[name])
        torch.testing.assert_close(
            zero if mine is None else mine,
            zero if naive is None else naive,
            rtol=1e-8,
            atol=1e-8,
            msg=lambda m, n=name: f"{n}: {m}",
        )


def test_the_catalogue_is_complete() -> None:
    assert set(OURS) <= set(METHODS)
    published = {(relative.slot, relative.id) for relative in REFERENCES.values()}
    controls = {("temporal_mixing", "input_gain")}  # a part of wr_8_2_gains: test_identities.py
    assert set(METHODS) - set(OURS) <= published | controls  # compared in test files of their own


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("slot", "method"), OURS)
def test_equals_reference(slot: str, method: str, host: str) -> None:
    for case in CASES[:4] if method == "wr_8_3_log" else CASES:  # its reference loops over pairs of channels
        assert_same(slot, method, host, case)


RERUN = [method for _, method in METHODS if method.startswith("v3_")]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("method", RERUN)
def test_patterns_that_many_layers_attend_with(method: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of queries and keys made once for all readers, as on long sequences."""
    monkeypatch.setattr(shared_pattern, "LONG", 1)
    monkeypatch.setattr(blocked_attention, "ROWS", 4)
    monkeypatch.setattr(
        blocked_attention, "BLOCK_NUMBERS", 300
    )  # some heads of a sequence at a time, or some sequences
    shared = []
    monkeypatch.setattr(
        attend, "attend_shared", lambda *given: shared.append(1) or shared_pattern.attend_shared(*given)
    )
    for case in CASES:
        assert_same("residual", method, host, case)
    assert len(shared) > len(CASES)


CUSTOM_2 = {"start": 1.0, "fixed": True}  # the log's: z = u + Rec(u)
SETTINGS = (
    [("residual", f"v1_m{i}", {"first": first}) for i in range(1, 8) for first in ("embedding", "zero")]
    + [("residual", m, {"keep_skip": True}) for m in ("v3_m1", "v3_m2", "v3_m3_1", "v3_m3_2", "v3_m4_1", "v3_m4_2")]
    + [("residual", m, {"checkpoint": False}) for m in ("v3_m1", "v3_m4_2")]
    + [("residual", "v2_clt", {"rank": rank}) for rank in (0, 3)]
    + [("residual", m, {"start": -0.5}) for m in ("skip_scalar", "skip_depth", "skip_vector", "skip_gains")]
    + [("temporal_mixing", m, {"scaled": True}) for m in ("wr_8_2_2", "wr_9_log")]
    + [("temporal_mixing", m, {"norm": norm}) for m in ("wr_7_log", "wr_7_1", "wr_7_1_log") for norm in (False, True)]
    + [("temporal_mixing", "wr_7_2", {"skip": True}), ("temporal_mixing", "wr_7_2", {"rnn_dim": 10})]
    + [("temporal_mixing", "wr_9", {"values": "token"}), ("temporal_mixing", "wr_9", {"values": "position", "n": 3})]
    + [("temporal_mixing", "wr_8_2_skip", {"start": -0.5}), ("temporal_mixing", "wr_8_2_skip", CUSTOM_2)]
    + [("temporal_mixing", "wr_8_3_log", {"groups": 4})]
    + [("temporal_mixing", m, {"n": n}) for m in ("wr_8_2", "wr_8", "wr_8_3", "wr_7_1", "wr_9") for n in (1, 2, 6)]
    + [
        ("temporal_mixing", m, {"site": site})
        for m in ("wr_1", "wr_4", "wr_7_1", "wr_7_2", "wr_8_2", "wr_8_3", "wr_9", "wr_attend", "wr_mean")
        for site in ("attention_input", "attention")
    ]
    + [("temporal_mixing", m, {"site": "output"}) for m in ("wr_1", "wr_4", "wr_8_2", "wr_9", "wr_example", "wr_mean")]
)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("slot", "method", "settings"), SETTINGS)
def test_settings_equal_reference(slot: str, method: str, settings: dict, host: str) -> None:
    for case in CASES[1:4:2] if method == "wr_8_3_log" else CASES[1::2]:
        assert_same(slot, method, host, case, **settings)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    ("residual", "score", "temporal", "site"),
    [
        ("v1_m3", "v4_m1d", "wr_8_2", "ffn"),
        ("v3_m1", "v4_m1", "wr_4", "ffn"),
        ("v3_m3_2", "v4_m1a", "wr_7_2", "attention_input"),
        ("v3_m4_2", "v4_m1e", "wr_8_2_skip", "attention_input"),
        ("v2_m3", "v4_m6", "wr_9", "attention_input"),
        ("skip_scalar", "v4_m1b", "wr_8_2_skip", "ffn"),
        ("skip_normed", "v4_mc", "wr_mean", "ffn"),
    ],
)
def test_three_slots_equal_reference(residual: str, score: str, temporal: str, site: str, host: str) -> None:
    chosen = {"residual": residual, "score_mixing": score, "temporal_mixing": temporal}
    factories = {slot: factory(slot, method) for slot, method in chosen.items()}
    factories["temporal_mixing"] = preset(factories["temporal_mixing"], site=site)
    built = random_model(depth=3, parallel=host == "parallel", num_kv_heads=2, **factories)
    inputs = tokens(2, 9)
    naive_methods = {
        REFERENCE_SLOTS[slot]: reference_method(
            built, slot, method, **({"site": site} if slot == "temporal_mixing" else {})
        )
        for slot, method in chosen.items()
    }
    theirs = reference.logits(inputs, reference_weights(built), host=host, **naive_methods)
    torch.testing.assert_close(built(inputs), theirs, rtol=1e-9, atol=1e-9)


def test_long_sequences_use_several_row_blocks() -> None:
    """Lengths past one block of rows, where the blocked kernels have borders of their own."""
    for method in ("v4_m1", "v4_m1a", "v4_m1b", "v4_m1c", "v4_m1d", "v4_m1e", "v4_m6"):
        build = factory("score_mixing", method)
        built = random_model(depth=2, max_length=300, num_kv_heads=2, score_mixing=build)
        inputs = tokens(2, 290)
        naive_method = reference_method(built, "score_mixing", method)
        ours, theirs = (
            built(inputs),
            reference.logits(inputs, reference_weights(built), host="sequential", score=naive_method),
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
        parameters = [p for block in built.layers for p in extension_of(block, "score_mixing").parameters()]
        parameters += [built.layers[0].attention.qkv]
        weights = torch.randn_like(ours)
        for mine, naive in zip(
            torch.autograd.grad((ours * weights).sum(), parameters),
            torch.autograd.grad((theirs * weights).sum(), parameters),
            strict=True,
        ):
            torch.testing.assert_close(mine, naive, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n", [0, -1])
@pytest.mark.parametrize("id", ["wr_7_1", "wr_8", "wr_8_log", "wr_8_2", "wr_8_2_gains", "wr_8_3", "wr_8_3_log", "wr_9"])
def test_weak_recurrence_over_no_token_is_refused(id: str, n: int) -> None:
    with pytest.raises(ZooError, match=rf"n = {n} must be at least 1: it is the number of tokens before this one"):
        random_model(temporal_mixing=preset(factory("temporal_mixing", id), n=n))
