"""Published value, gate and score methods, against the naive references: logits, gradients, first values, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from helpers.against_relatives import assert_equals_relative, assert_starts_as_relative
from helpers.random_models import extension_of, factory, random_model, tokens
from torch import Tensor

from zoo.errors import ZooError
from zoo.extension import AttentionInputs, Layer, ScoreMixing, preset
from zoo.history import History
from zoo.model.block import Block
from zoo.model.build import model
from zoo.model.language_model import LanguageModel
from zoo.scores import Factors, Scores, Term
from zoo.state import State
from zoo.testing import check

HOSTS = ["sequential", "parallel"]
# (depth, length, key heads of 4)
SHAPES = [(1, 1, 4), (2, 5, 2), (4, 7, 1)]
PAIRED = [(1, 1, 4), (2, 5, 2), (4, 7, 4)]  # of heads that go by twos
Adapter = Callable[[Block], dict[str, Tensor]]


def parameters_of(slot: str) -> Adapter:
    """The parameters under their own names, which are the references'."""
    return lambda block: dict(extension_of(block, slot).named_parameters())


def lambdas_apart(block: Block) -> dict[str, Tensor]:
    own = dict(extension_of(block, "head_mixing").named_parameters())
    return dict(zip(["lambda_1", "lambda_2"], own["lambdas"].unbind(), strict=True)) if own else {}


def lambda_vectors_apart(block: Block) -> dict[str, Tensor]:
    own = extension_of(block, "score_mixing")
    names = ["lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"]
    return dict(zip(names, own.lambdas.unbind(), strict=True)) | {"gain": own.gain}


def groups_joined(block: Block) -> dict[str, Tensor]:
    own = extension_of(block, "score_mixing")
    rest = {name: value for name, value in own.named_parameters() if not name.startswith("h_2")}
    return rest | {"h_2": torch.block_diag(*own.h_2)}


HEADS, SCORES = ("head_mixing", parameters_of("head_mixing")), ("score_mixing", parameters_of("score_mixing"))
# (id, our settings, the reference's settings)
CASES: list[tuple[str, dict, dict]] = [
    ("value_residual", {}, {}),
    ("value_residual", {"first": 5.0, "own": 1.0, "first_layer": 2}, {"lambda_1": 5.0, "lambda_2": 1.0}),
    ("value_residual_learned", {}, {}),
    ("gated_attention", {}, {}),
    ("gated_attention", {"doubled": True}, {"doubled": True}),
    ("gated_attention_elementwise", {}, {}),
    ("lime", {}, {}),
    ("differential_v2", {}, {}),
    ("realformer", {}, {}),
    ("realformer_mean", {}, {}),
    ("attention_sink", {}, {}),
    ("softmax_one", {}, {}),
    ("alibi", {}, {}),
    ("fox", {}, {}),
    ("ssmax", {}, {}),
    ("cosine_attention", {}, {}),
    ("cosine_attention", {"norm": False}, {"norm": False}),
    ("talking_heads", {}, {}),
    ("talking_heads_pre", {}, {}),
    ("talking_heads_post", {}, {}),
    ("differential", {}, {"values": "pair"}),
    ("sigmoid_attention", {}, {}),
    ("sigmoid_attention", {"bias": 0.0}, {"bias": 0.0}),
    ("selective_attention", {}, {}),
    ("mta", {}, {}),
    (
        "mta",
        {"conv_first": 0, "conv_every": 1, "query_window": 3, "key_window": 5},
        {"conv_first": 0, "conv_every": 1, "rows": 3, "keys": 5},
    ),
    (
        "mta",
        {"norm": False, "gate": False, "conv_first": 1, "query_window": 2, "key_window": 3, "head_group": 3},
        {"norm": False, "gate": False, "conv_first": 1, "rows": 2, "keys": 3, "head_group": 3},
    ),
]
ADAPTERS = {
    "value_residual_learned": ("head_mixing", lambdas_apart),
    "differential": ("score_mixing", lambda_vectors_apart),
    "mta": ("score_mixing", groups_joined),
} | dict.fromkeys(
    ["value_residual", "gated_attention", "gated_attention_elementwise", "lime", "differential_v2"], HEADS
)


def place(id: str) -> tuple[str, Adapter]:
    """The slot of a method, and its parameters as the reference wants them."""
    return ADAPTERS.get(id, SCORES)


def names(case: tuple[str, dict, dict]) -> str:
    return " ".join([case[0], *(f"{name}={value}" for name, value in case[1].items())])


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("case", CASES, ids=names)
def test_equals_the_reference(case: tuple[str, dict, dict], host: str) -> None:
    id, settings, theirs = case
    slot, adapter = place(id)
    for depth, length, kv_heads in PAIRED if id == "differential" else SHAPES:
        shape = {"depth": depth, "num_kv_heads": kv_heads, "parallel": host == "parallel"}
        built = random_model(depth, **shape, **{slot: preset(factory(slot, id), **settings)})
        assert_equals_relative(built, tokens(2, length), id, adapter, **theirs)


@pytest.mark.parametrize("case", CASES, ids=names)
def test_starts_as_the_reference(case: tuple[str, dict, dict]) -> None:
    id, settings, theirs = case
    slot, adapter = place(id)
    built = model(50, 16, depth=3, width=32, head_dim=8, **{slot: preset(factory(slot, id), **settings)})
    assert_starts_as_relative(built, id, adapter, **theirs)


# --- identities


def fresh(slot: str | None = None, id: str = "", **settings: object) -> LanguageModel:
    """A model whose core weights are random and the same for every method, its method as it starts."""
    chosen = {} if slot is None else {slot: preset(factory(slot, id), **settings)}
    return model(50, 16, depth=3, width=32, head_dim=8, ffn_dim=48, init_std=0.3, **chosen).double()


def same(first: LanguageModel, second: LanguageModel) -> None:
    torch.testing.assert_close(first(tokens(2, 9)), second(tokens(2, 9)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("slot", "id", "settings"),
    [
        ("head_mixing", "value_residual", {"first": 0.0, "own": 1.0}),
        ("head_mixing", "value_residual_learned", {"first": 0.0, "own": 1.0}),
        ("head_mixing", "lime", {"zero": True}),
        ("head_mixing", "gated_attention", {"doubled": True}),
        ("head_mixing", "gated_attention_elementwise", {"doubled": True}),
        ("score_mixing", "cosine_attention", {"norm": False}),
        ("score_mixing", "mta", {"norm": False, "gate": False}),
        ("score_mixing", "talking_heads", {}),
        ("score_mixing", "talking_heads_pre", {}),
        ("score_mixing", "talking_heads_post", {}),
    ],
)
def test_starts_as_the_baseline(slot: str, id: str, settings: dict) -> None:
    built = fresh(slot, id, **settings)
    same(built, fresh())
    declared = extension_of(built.layers[0], slot).starts_as or factory(slot, id).starts_as
    assert declared == "baseline"


@pytest.mark.parametrize(("one", "other"), [("realformer", "v4_m1"), ("realformer_mean", "v4_m3")])
def test_realformer_is_a_sum_of_scores(one: str, other: str) -> None:
    same(fresh("score_mixing", one), fresh("score_mixing", other))


def test_softmax_one_is_a_sink_of_zero() -> None:
    same(fresh("score_mixing", "softmax_one"), fresh("score_mixing", "attention_sink"))


def test_a_sink_that_nobody_falls_into_is_the_baseline() -> None:
    built = fresh("score_mixing", "attention_sink")
    with torch.no_grad():
        for block in built.layers:
            extension_of(block, "score_mixing").z.fill_(-1e4)
    same(built, fresh())


def test_fox_that_never_forgets_is_the_baseline_without_positions() -> None:
    built = fresh("score_mixing", "fox")
    with torch.no_grad():
        for block in built.layers:
            extension_of(block, "score_mixing").b_f.fill_(1e4)
    plain = model(50, 16, depth=3, width=32, head_dim=8, ffn_dim=48, init_std=0.3, positions="none").double()
    same(built, plain)


class SharedMaps(ScoreMixing):
    """Plain attention in which both heads of a pair attend as the first of them does."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        first = [heads[:, ::2].repeat_interleave(2, dim=1) for heads in (q, k)]
        return Factors((Term(*first, query=q.size(-1) ** -0.5),))


def test_differential_of_nothing_without_its_norm_shares_the_first_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo_plugins.maps.rms_norm", lambda x, gain, eps: x)
    built = fresh("score_mixing", "differential")
    with torch.no_grad():
        for block in built.layers:
            own = extension_of(block, "score_mixing")
            own.lambda_0 = 0.0
            own.lambdas.zero_()  # λ = e⁰ − e⁰ + λ0 = 0
    shape = {"depth": 3, "width": 32, "head_dim": 8, "ffn_dim": 48, "init_std": 0.3}
    same(built, model(50, 16, **shape, score_mixing=SharedMaps).double())


@pytest.mark.parametrize("keys", [2, 5, 9])
def test_a_row_whose_scale_is_one_is_plain_attention(keys: int) -> None:
    """ssmax with s log n = 1: rows see different numbers of keys, so one row of one layer at a time."""
    built = model(50, 16, depth=1, width=32, head_dim=8, ffn_dim=48, init_std=0.3, **ssmax_of(1 / math.log(keys)))
    plain = model(50, 16, depth=1, width=32, head_dim=8, ffn_dim=48, init_std=0.3)
    ours, theirs = built.double()(tokens(2, 9)), plain.double()(tokens(2, 9))
    torch.testing.assert_close(ours[:, keys - 1], theirs[:, keys - 1], rtol=1e-6, atol=1e-6)
    others = [row for row in range(1, 9) if row != keys - 1]
    assert (ours - theirs)[:, others].abs().amax(dim=(0, 2)).min() > 1e-4


def ssmax_of(start: float) -> dict[str, Callable[..., ScoreMixing]]:
    return {"score_mixing": preset(factory("score_mixing", "ssmax"), start=start)}


def test_mta_of_heads_alone_is_talking_heads() -> None:
    one = random_model(score_mixing=preset(factory("score_mixing", "mta"), norm=False, gate=False, conv_first=9))
    other = random_model(score_mixing=factory("score_mixing", "talking_heads"))
    with torch.no_grad():
        core = {name: value for name, value in one.state_dict().items() if "score_mixing" not in name}
        other.load_state_dict(core, strict=False)
        for mine, theirs in zip(one.layers, other.layers, strict=True):
            mixing, talking = extension_of(mine, "score_mixing"), extension_of(theirs, "score_mixing")
            talking.p.copy_(mixing.h_1)
            talking.w.copy_(mixing.h_2[0])
    same(one, other)


def test_mta_decodes_with_convolutions_in_every_layer() -> None:
    settings = {"conv_first": 0, "conv_every": 1, "query_window": 3, "key_window": 5}
    method = preset(factory("score_mixing", "mta"), **settings)
    check(method, "score_mixing", only=["causal", "cached", "gradients", "derivative"]).verify()


@pytest.mark.parametrize(
    ("id", "settings", "theirs"),
    [
        ("mta", {"conv_first": 0}, {"conv_first": 0}),
        ("differential", {}, {"values": "pair"}),
        ("selective_attention", {}, {}),
        ("alibi", {}, {}),
    ],
)
def test_equals_the_reference_in_more_than_one_block_of_rows(id: str, settings: dict, theirs: dict) -> None:
    method = preset(factory("score_mixing", id), **settings)
    built = random_model(depth=1, num_kv_heads=2, max_length=140, score_mixing=method)
    assert_equals_relative(built, tokens(1, 135), id, place(id)[1], **theirs)


def test_values_from_a_layer_on() -> None:
    method = preset(factory("head_mixing", "value_residual_learned"), first_layer=3)
    built = random_model(depth=4, head_mixing=method)
    assert_equals_relative(built, tokens(2, 5), "value_residual_learned", lambdas_apart, layers=(3, 4))


# --- what is refused


def sizes(**changes: int) -> Layer:
    usual = {"width": 32, "ffn_dim": 48, "num_heads": 4, "num_kv_heads": 4, "head_dim": 8, "max_length": 16}
    return Layer(index=1, num_layers=3, parallel=False, norm_eps=1e-5, **(usual | changes))


@pytest.mark.parametrize(
    ("slot", "id", "changes", "settings", "sentence"),
    [
        ("head_mixing", "value_residual", {}, {"first_layer": 1}, "first_layer = 1: take a layer from 2 to 3"),
        ("head_mixing", "value_residual", {}, {"first_layer": 4}, "first_layer = 4: take a layer from 2 to 3"),
        ("score_mixing", "differential", {"num_heads": 3, "num_kv_heads": 3}, {}, "has 3 heads: .* even"),
        ("score_mixing", "differential", {"num_kv_heads": 1}, {}, "has 1 key heads: .* even"),
        ("score_mixing", "mta", {}, {"key_window": 4}, "key_window = 4: .* odd"),
        ("score_mixing", "mta", {}, {"query_window": 0}, "query_window = 0: take at least 1"),
        ("score_mixing", "mta", {}, {"conv_every": 0}, "conv_every = 0: take at least 1"),
        ("score_mixing", "mta", {}, {"conv_first": -1}, "conv_first = -1: layers count from 0"),
        ("score_mixing", "cosine_attention", {}, {"start": 0.0}, "start = 0.0: .* above 0"),
        ("score_mixing", "cosine_attention", {}, {"start": 200.0}, "at most cap = 100"),
    ],
)
def test_bad_settings_are_refused(slot: str, id: str, changes: dict, settings: dict, sentence: str) -> None:
    with pytest.raises((ValueError, ZooError), match=sentence):
        factory(slot, id)(sizes(**changes), **settings)
