"""Counts against closed formulas, and baselines that match as well as one width allows."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import pytest
import torch
from reference.relatives import REFERENCES
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from zoo.catalogue.sizes import size
from zoo.counting import flops, matching
from zoo.errors import ZooError
from zoo.extension import Layer, TemporalMixing
from zoo.model import language_model
from zoo.model.build import model
from zoo.plugins.registry import installed
from zoo.state import State

torch.set_num_threads(1)
REGISTRY = installed()


class Shape(NamedTuple):
    L: int = 2  # layers
    D: int = 32
    H: int = 4
    K: int = 4  # key/value heads
    F: int = 40
    V: int = 64
    T: int = 12


SHAPE = Shape()


def of(shape: Shape = SHAPE, parallel: bool = False, **slots: object) -> flops.Build:
    L, D, H, K, F, V, T = shape
    sizes = {"depth": L, "width": D, "head_dim": D // H, "num_heads": H, "num_kv_heads": K, "ffn_dim": F}
    return functools.partial(model, V, T, **sizes, parallel=parallel, **slots)


def method(id: str, shape: Shape = SHAPE, parallel: bool = False, **settings: object) -> flops.Build:
    (entry,) = REGISTRY.claims(id)
    factory = REGISTRY.get(entry.slot, id).factory
    return of(shape, parallel, **{entry.slot: functools.partial(factory, **settings)})


# --- closed formulas: FLOPs per token, forward and backward; every product costs 2, and twice that in backward


def attention(s: Shape, width: int | None = None) -> float:
    """Scores over `width`, and values: each over (T+1)/2 keys on average."""
    return 6 * ((width or s.D) + s.D) * (s.T + 1) / 2


def baseline(s: Shape) -> float:
    projections = 2 * s.D * s.D + 2 * s.D * s.K * s.D // s.H
    return s.L * (6 * (projections + 3 * s.D * s.F) + attention(s)) + 6 * s.V * s.D


def below(s: Shape) -> int:
    """How often a layer meets one below it."""
    return s.L * (s.L - 1) // 2


def inner(s: Shape) -> int:
    """4D/3, rounded up to whole heads."""
    return math.ceil(4 * s.D / 3 / (s.D // s.H)) * (s.D // s.H)


FLOPS = {
    "v1_m3": lambda s: 0,
    "v3_m1": lambda s: below(s) * (6 * (2 * s.D**2 + 3 * s.D * s.F) + attention(s)),
    "v3_m4_2": lambda s: below(s) * (12 * s.D**2 + attention(s)),
    "v4_m1": lambda s: below(s) * (attention(s, 2 * s.D) - attention(s)),
    "v4_m1a": lambda s: below(s) * (attention(s, 2 * s.D) - attention(s)),
    "v4_m1e": lambda s: FLOPS["v4_m1"](s) + 6 * sum(s.D * m + m * m for m in range(1, s.L + 1)),
    "v4_md": lambda s: 6 * s.L * (s.D + 1),
    "wr_4": lambda s: 36 * s.L * s.D**2,
    "wr_8_2": lambda s: 6 * s.L * s.D**2,
    "wr_8_3_log": lambda s: 6 * s.L * 3 * s.D**2,  # the gate, and n = 2 taps
    "v2_clt": lambda s: 6 * below(s) * 2 * s.D * 32,
    "wr_7_2": lambda s: 6 * s.L * (3 * s.D * inner(s) + 2 * inner(s) ** 2),
    "wr_9_log": lambda s: 18 * s.L * s.D**2,
    "wr_attend": lambda s: 6 * s.L * (s.D**2 + s.D * (s.T - 1)),
    "wr_attatt": lambda s: s.L * attention(s),
}


@pytest.mark.parametrize(
    "shape, parallel", [(SHAPE, False), (Shape(L=1, T=1), True), (Shape(K=2, D=48, F=17, T=9), True)]
)
def test_the_baseline_costs_what_the_formula_says(shape: Shape, parallel: bool) -> None:
    cost = flops.training_cost(of(shape, parallel), shape.T)
    scores_again = shape.L * shape.D * (shape.T + 1)
    assert cost.flops == pytest.approx(baseline(shape))
    assert cost.flops_executed == pytest.approx(baseline(shape) + scores_again)
    assert cost.idle == 0
    assert sum(flops.forward_flops(of(shape, parallel), shape.T)) == pytest.approx(baseline(shape) / 3)


@pytest.mark.parametrize("id", FLOPS)
def test_a_method_costs_what_its_formula_says(id: str) -> None:
    shape = Shape(L=3) if id.startswith(("v3", "v4")) else SHAPE  # where a layer's cost depends on its number
    assert flops.training_cost(method(id, shape), shape.T).flops == pytest.approx(baseline(shape) + FLOPS[id](shape))


@pytest.mark.parametrize("id", ["v3_m1", "v4_m1a"])
def test_a_forward_pass_is_a_third_of_it(id: str) -> None:
    *layers, rest = flops.forward_flops(method(id), SHAPE.T)
    assert len(layers) == SHAPE.L
    assert sum(layers) + rest == pytest.approx((baseline(SHAPE) + FLOPS[id](SHAPE)) / 3)
    assert rest == 2 * SHAPE.V * SHAPE.D


@pytest.mark.parametrize("length", [1, 2, 131])
def test_scores_that_do_not_factor_count_like_those_that_do(length: int) -> None:
    shape = Shape(L=2, T=length)
    dense, factored = (flops.training_cost(method(id, shape), length).flops for id in ("v4_m1a", "v4_m1"))
    assert dense == pytest.approx(factored)


@pytest.mark.parametrize("id", ["v1_m3", "v3_m1", "v3_m2", "wr_9", "wr_attend"])
def test_a_real_training_step_counts_the_same(id: str) -> None:
    built = method(id)()
    tokens = torch.randint(SHAPE.V, (2, SHAPE.T))
    with flops.counting(built) as counter:
        built.loss(tokens, tokens).backward()
    cost = flops.training_cost(method(id), SHAPE.T)
    assert counter.total() / tokens.numel() == pytest.approx(cost.flops_executed)
    assert counter.arithmetic() / tokens.numel() == pytest.approx(cost.flops)


def test_torch_alone_forgets_attention_on_a_cpu() -> None:
    """Why the counter has formulas of its own. Should this fail one day, torch has learned it and ours can go."""
    built = of()()
    with FlopCounterMode(display=False) as counter:
        logits = built(torch.zeros(1, SHAPE.T, dtype=torch.int64))
        torch.autograd.backward(logits, torch.ones_like(logits))
    assert counter.get_total_flops() / SHAPE.T == baseline(SHAPE) - SHAPE.L * attention(SHAPE)


# --- what is made again


def test_what_backward_makes_again_is_executed_and_no_arithmetic_of_the_method() -> None:
    once, again = (flops.training_cost(method("v3_m1", checkpoint=flag), SHAPE.T) for flag in (False, True))
    scores_again = (SHAPE.L + below(SHAPE)) * SHAPE.D * (SHAPE.T + 1)
    assert once.flops == again.flops
    assert once.flops_executed == pytest.approx(once.flops + scores_again)
    assert again.flops_executed > once.flops_executed


def test_checkpointed_layers_do_not_change_the_arithmetic() -> None:
    def checkpointed(**given: object) -> language_model.LanguageModel:
        built = of()(**given)
        built.checkpoint_activations = True
        return built

    cost = flops.training_cost(checkpointed, SHAPE.T)
    assert cost.flops == pytest.approx(baseline(SHAPE))
    assert cost.flops_executed > flops.training_cost(of(), SHAPE.T).flops_executed


class Peeking(TemporalMixing):
    """Looks at values, when it is built or when it runs: what the meta device does not have."""

    def __init__(self, layer: Layer, when: str) -> None:
        super().__init__()
        self.when = when
        self.w = nn.Parameter(torch.ones(layer.width, layer.width))
        if when == "built":
            assert self.w.sum().item() > 0

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return u @ self.w if self.when == "built" or self.w.sum().item() > 0 else u


@pytest.mark.parametrize("when", ["built", "run"])
def test_a_method_that_looks_at_values_is_counted_too(when: str) -> None:
    cost = flops.training_cost(of(temporal_mixing=functools.partial(Peeking, when=when)), SHAPE.T)
    assert cost.flops == pytest.approx(baseline(SHAPE) + 6 * SHAPE.L * SHAPE.D**2)


# --- parameters


def triangle(s: Shape) -> int:
    return s.L * (s.L + 1) // 2


def token_weights(s: Shape) -> int:
    return sum(s.D * m + m * m + m for m in range(1, s.L + 1))


GATE = {
    **{"wr_8_2": 2, "wr_8_2_skip": 3, "wr_8_2_gate": 3, "wr_8_2_gains": 4, "wr_example": 4},
    **{"wr_8": 3, "wr_8_1": 3, "wr_8_log": 0, "wr_8_1_log": 0},
}
PARAMETERS = {
    **{f"v1_m{i}": lambda s: 0 for i in range(1, 8)},
    "v2_m1": lambda s: 0,
    "v2_m2": lambda s: 0,
    "v2_clt": lambda s: below(s) * 2 * s.D * 32,
    **{id: lambda s: triangle(s) - 1 for id in ("v2_m3", "v3_m3_2", "v3_m4_2")},
    **{id: lambda s: 0 for id in ("v3_m1", "v3_m2", "v3_m3_1", "v3_m4_1", "v3_values")},
    **{f"skip_{name}": lambda s: 2 * s.L for name in ("scalar", "scalar_2", "scalar_0", "scalar_half", "depth")},
    "skip_vector": lambda s: 2 * s.D * s.L,
    "skip_attention_gain": lambda s: 3 * s.L,
    "skip_gains": lambda s: 4 * s.L,
    "skip_gains_log": lambda s: 4 * s.L,
    "skip_normed": lambda s: 3 * s.L,
    **{f"v4_m{i}": lambda s: 0 for i in (1, 2, 3)},
    "v4_m4": lambda s: 2 * s.L,
    "v4_m5": triangle,
    "v4_m6": lambda s: 2 * triangle(s),
    "v4_m7": triangle,
    "v4_m1a": lambda s: triangle(s) * s.T**2,
    "v4_m1b": lambda s: triangle(s) * s.T,
    "v4_m1c": lambda s: triangle(s) * s.T,
    "v4_m1d": token_weights,
    "v4_m1e": token_weights,
    "v4_mc": lambda s: s.L * s.T,
    "v4_md": lambda s: s.L * (s.D + 2),
    **{id: lambda s: s.L for id in ("wr_1", "wr_6_1", "input_gain")},
    **{id: lambda s: 2 * s.L for id in ("wr_5", "wr_6")},
    "wr_2": lambda s: s.L * (2 * s.D**2 + s.D),
    "wr_3": lambda s: s.L * (2 * s.D**2 + s.D + 1),
    "wr_3_1": lambda s: s.L * (s.D**2 + s.D),
    "wr_3_2": lambda s: s.L * (s.D**2 + s.D + 1),
    "wr_4": lambda s: s.L * (6 * s.D**2 + 3 * s.D),
    "wr_7": lambda s: s.L * (2 * s.D**2 + 2 * s.D + 1),
    "wr_7_log": lambda s: s.L * (2 * s.D**2 + 2 * s.D + 1),
    "wr_7_1": lambda s: s.L * (2 * s.D**2 + 2 * s.D + 1 + 2),
    "wr_7_1_log": lambda s: s.L * (2 * s.D**2 + 2 * s.D + 1 + 2),
    "wr_7_2": lambda s: s.L * (3 * s.D * inner(s) + 2 * inner(s) ** 2 + 9 * inner(s) + s.D + 1),
    **{id: lambda s, more=more: s.L * (s.D**2 + s.D + more) for id, more in GATE.items()},
    "wr_8_2_1": lambda s: s.L * (2 * s.D**2 + 2 * s.D + 2),
    "wr_8_2_2": lambda s: s.L * (2 * s.D**2 + 2 * s.D + 2),
    "wr_8_2_3": lambda s: s.L * (3 * s.D**2 + 2 * s.D + 2),
    "wr_8_2_4": lambda s: s.L * (4 * s.D**2 + 2 * s.D + 2),
    "wr_8_3": lambda s: s.L * (s.D**2 + s.D + 2 * s.D),
    "wr_8_3_log": lambda s: s.L * (s.D**2 + s.D + 2 * s.D**2),
    "wr_9": lambda s: s.L * (s.D**2 + s.D + 2 + s.T * s.D),
    "wr_9_log": lambda s: s.L * (s.D**2 + 2 * s.D + 2 + s.T * s.D),
    "wr_attend": lambda s: s.L * (s.D**2 + 1),
    "wr_attatt": lambda s: s.L * s.H,
    "wr_mean": lambda s: s.L * (s.D**2 + 1),
}


def test_every_method_has_the_parameters_that_its_card_says() -> None:
    ours = {entry.id for entry in REGISTRY.entries if entry.value.startswith("zoo_plugins.")}
    assert PARAMETERS.keys() <= ours and ours - PARAMETERS.keys() <= REFERENCES.keys()  # those are compared by shape
    plain = flops.count_parameters(of())
    counted = {id: flops.count_parameters(method(id)) - plain for id in PARAMETERS}
    assert counted == {id: formula(SHAPE) for id, formula in PARAMETERS.items()}


def test_the_meta_device_has_as_many_parameters_as_a_real_model() -> None:
    for id in ("v4_m1a", "wr_7_2", "skip_vector"):
        assert flops.count_parameters(method(id)) == method(id)().num_parameters()
    assert flops.count_parameters(of()) == of()().num_parameters()


# --- matched baselines


def at(width: int) -> int:
    return flops.count_parameters(functools.partial(of(), ffn_dim=width))


@pytest.mark.parametrize("id", ["v1_m3", "v2_m3", "v4_m1a", "wr_4", "wr_8_2"])
def test_no_width_is_nearer_in_parameters(id: str) -> None:
    match = matching.by_parameters(method(id), SHAPE.T)
    assert (match.kind, match.tokens) == ("parameters", 1.0)
    assert (match.method, match.baseline) == (flops.count_parameters(method(id)), at(match.ffn_dim))
    others = [abs(at(match.ffn_dim + step) - match.method) for step in (-1, 1)]
    assert abs(match.difference) <= min(others)


def test_a_method_without_parameters_is_matched_by_the_baseline_itself() -> None:
    match = matching.by_parameters(method("v1_m3"), SHAPE.T)
    assert (match.ffn_dim, match.difference, match.relative) == (SHAPE.F, 0, 0)


@pytest.mark.parametrize("id", ["v2_m3", "skip_vector", "v4_m1a", "v4_m1d", "wr_8_2", "wr_7_2"])
def test_at_base_the_difference_is_below_a_thousandth(id: str) -> None:
    (entry,) = REGISTRY.claims(id)
    base = size("base")
    matched = matching.by_parameters(base.build(REGISTRY.get(entry.slot, id)), base.length)
    assert abs(matched.relative) < 0.001


def test_by_flops_the_ffn_is_widened_until_a_token_costs_the_same() -> None:
    match = matching.by_flops(method("v3_m1"), SHAPE.T)
    step = 18 * SHAPE.L * SHAPE.D
    assert match.method == flops.training_cost(method("v3_m1"), SHAPE.T).flops
    assert match.baseline == pytest.approx(baseline(SHAPE._replace(F=match.ffn_dim)))
    assert abs(match.difference) <= step / 2


def test_by_tokens_the_baseline_is_trained_longer() -> None:
    match = matching.by_tokens(method("v3_m1"), SHAPE.T)
    assert match.ffn_dim == SHAPE.F
    assert match.tokens == pytest.approx(1 + FLOPS["v3_m1"](SHAPE) / baseline(SHAPE))
    assert match.difference == 0


def test_a_cheaper_method_gets_a_narrower_baseline_or_fewer_tokens() -> None:
    cheap = method("wr_1", site="attention")  # no attention at all
    cost = flops.training_cost(cheap, SHAPE.T)
    assert cost.flops == pytest.approx(baseline(SHAPE) - SHAPE.L * (24 * SHAPE.D**2 + attention(SHAPE)))
    narrow = matching.by_flops(method("wr_1", Shape(F=90), site="attention"), SHAPE.T)
    assert 1 <= narrow.ffn_dim < 90
    assert matching.by_tokens(cheap, SHAPE.T).tokens < 1


def test_a_match_that_no_width_gives_is_refused_with_a_sentence() -> None:
    with pytest.raises(ZooError, match="no plain model has as few flops"):
        matching.by_flops(method("wr_1", site="attention"), SHAPE.T)
    with pytest.raises(ZooError, match="matched by none, parameters, flops, tokens, not by size"):
        matching.find_match(of(), SHAPE.T, "size")  # type: ignore[arg-type]


def test_the_host_is_the_methods() -> None:
    match = matching.find_match(method("skip_vector", parallel=True), SHAPE.T, "none")
    assert match.difference == -SHAPE.D * SHAPE.L  # one vector per layer, where the sequential host has two


@pytest.mark.parametrize("kind", ["none", "parameters", "flops", "tokens"])
def test_the_kind_of_match_is_chosen_by_its_name(kind: matching.Kind) -> None:
    shape = Shape(L=1)
    match = matching.find_match(
        method("v1_m1", shape), shape.T, kind
    )  # which costs nothing: the baseline matches as it is
    assert match[:3] == (kind, shape.F, 1.0)
    assert match.baseline == match.method


def test_parameters_that_no_gradient_reaches_are_told() -> None:
    cost = flops.training_cost(method("v1_m3", parallel=True), SHAPE.T)
    assert cost.idle == (SHAPE.L - 1) * (4 * SHAPE.D**2 + SHAPE.D)  # attention and its norm, but in layer 1


def test_parameters_that_are_declared_idle_are_told() -> None:
    cost = flops.training_cost(method("v4_m4"), SHAPE.T)
    assert (cost.idle, cost.live) == (1, cost.parameters - 1)  # 1^b in layer 1


def test_what_is_idle_makes_no_baseline_larger() -> None:
    """v1_m3 in the parallel host: attention has no effect above layer 1, so the baseline is narrower by as much."""
    idle = method("v1_m3", parallel=True)
    match = matching.by_parameters(idle, SHAPE.T)
    assert match.method == flops.count_parameters(idle) - (SHAPE.L - 1) * (4 * SHAPE.D**2 + SHAPE.D)
    assert match.ffn_dim == SHAPE.F - round((4 * SHAPE.D**2 + SHAPE.D) / (3 * SHAPE.D * SHAPE.L))
    assert matching.as_it_is(idle, SHAPE.T).difference == (SHAPE.L - 1) * (4 * SHAPE.D**2 + SHAPE.D)
