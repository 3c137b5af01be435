"""How attention knows where a token is: rotary positions, or none but the causal mask."""

from __future__ import annotations

import functools

import pytest
import reference
import torch
from helpers.random_models import VOCAB, factory, random_model, reference_method, reference_weights, tokens
from torch import Tensor

from zoo.config.gin_bridge import reset_config
from zoo.config.load import load_config
from zoo.counting.flops import training_cost
from zoo.errors import ConfigError, SettingError
from zoo.extension import Extension, preset
from zoo.generation.generate import state_bag
from zoo.kernels.rotary import rotary_table
from zoo.model.build import model
from zoo.model.language_model import LanguageModel
from zoo.model.positions import NoPositions, Rotary

CPU = torch.device("cpu")


def methods(**ids: str) -> dict[str, Extension]:
    return {slot: factory(slot, id) for slot, id in ids.items()}


@torch.no_grad()
def last_logits(built: LanguageModel, inputs: Tensor) -> Tensor:
    return built(inputs)[:, -1]


@torch.no_grad()
def decoded(built: LanguageModel, inputs: Tensor, plan: list[int]) -> Tensor:
    bag, logits = state_bag(inputs.size(1)), []
    for chunk in inputs.split(plan, dim=1):
        logits.append(built(chunk, state_bag=bag))
        bag.increment_step_nr(chunk.size(1))
    return torch.cat(logits, dim=1)


def test_a_table_is_the_same_from_wherever_it_starts() -> None:
    whole = rotary_table(11, 6, 50.0)
    assert torch.equal(Rotary(6, 50.0).table(0, 11, CPU), whole)
    assert torch.equal(Rotary(6, 50.0).table(7, 4, CPU), whole[7:])
    assert NoPositions().table(7, 4, CPU) is None


@pytest.mark.parametrize(("positions", "depth", "moves"), [("none", 1, False), ("none", 2, True), ("rotary", 1, True)])
def test_one_layer_without_positions_sees_a_set_of_earlier_tokens(positions: str, depth: int, moves: bool) -> None:
    """The order of earlier tokens shows only through the causal mask of a layer below, or through positions."""
    built, inputs = random_model(depth=depth, positions=positions, qk_norm=True), tokens(2, 9)
    order = torch.tensor([5, 2, 7, 0, 6, 1, 4, 3, 8])
    there = torch.allclose(last_logits(built, inputs), last_logits(built, inputs[:, order]), rtol=1e-12, atol=1e-12)
    assert there != moves


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("slot", "id"),
    [("residual", "v1_m3"), ("residual", "v3_m1"), ("score_mixing", "v4_m1"), ("score_mixing", "v4_m1a")],
)
def test_without_positions_a_model_is_its_reference(slot: str, id: str, parallel: bool) -> None:
    built = random_model(positions="none", num_kv_heads=2, parallel=parallel, **methods(**{slot: id}))
    inputs, host = tokens(2, 9), "parallel" if parallel else "sequential"
    name = {"residual": "residual", "score_mixing": "score"}[slot]
    naive = reference.logits(inputs, reference_weights(built), host=host, **{name: reference_method(built, slot, id)})
    torch.testing.assert_close(built(inputs), naive, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "chosen",
    [{}, {"residual": "v3_m1"}, {"score_mixing": "v4_m1e"}, {"residual": "v3_m4_2", "temporal_mixing": "wr_8_2"}],
    ids=["plain", "replay", "shared heads", "combined"],
)
def test_without_positions_decoding_gives_the_whole_pass(chosen: dict[str, str]) -> None:
    built, inputs = random_model(positions="none", **methods(**chosen)), tokens(2, 9)
    with torch.no_grad():
        whole = built(inputs)
    for plan in ([1] * 9, [4, 1, 3, 1]):
        torch.testing.assert_close(decoded(built, inputs, plan), whole, rtol=1e-10, atol=1e-10)


def gradients(built: LanguageModel, inputs: Tensor) -> list[Tensor]:
    built.zero_grad()
    built.loss(inputs[:, :-1], inputs[:, 1:]).backward()
    return [p.grad for p in built.parameters() if p.grad is not None]


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_compiled_and_checkpointed_gradients_are_those_of_the_plain_pass(positions: str) -> None:
    mixing = preset(factory("temporal_mixing", "wr_8_2"), site="attention_input")
    built = random_model(depth=2, positions=positions, temporal_mixing=mixing, **methods(residual="v3_m1")).train()
    inputs = tokens(2, 9)
    plain = gradients(built, inputs)
    built.checkpoint_activations = True
    checkpointed = gradients(built, inputs)
    built.checkpoint_activations = False
    built._run_stack = torch.compile(built._stack, backend="eager")
    compiled = gradients(built, inputs)
    assert len(plain) == len(checkpointed) == len(compiled)
    for one, *others in zip(plain, checkpointed, compiled, strict=True):
        for other in others:
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_positions_cost_no_parameters_and_no_products() -> None:
    build = functools.partial(model, VOCAB, 16, depth=2, width=32, head_dim=8)
    assert training_cost(build, 16) == training_cost(functools.partial(build, positions="none"), 16)


def test_only_rotary_positions_need_an_even_width_of_heads() -> None:
    for settings in ({"head_dim": 5, "num_heads": 3}, {"aspect": 5}):
        with pytest.raises(SettingError, match="rotary positions turn pairs, so the width of a head must be even"):
            model(VOCAB, 8, depth=2, **settings)
        built = model(VOCAB, 8, depth=2, positions="none", **settings)
        assert built.layers[0].attention.head_dim == 5 and built(tokens(1, 4)).isfinite().all()


def test_the_setting_names_the_positions() -> None:
    try:
        built = load_config(["sizes/tiny"], ["model.positions='none'"]).build("model", vocab_size=64, max_length=8)
        assert built.layers[0].attention.positions == NoPositions()
        with pytest.raises(ConfigError, match="model.positions must be one of 'rotary', 'none', not 'sinusoidal'"):
            load_config(["sizes/tiny"], ["model.positions='sinusoidal'"])
        with pytest.raises(SettingError, match="model.positions = 'sinusoidal' must be 'rotary' or 'none'"):
            model(VOCAB, 8, depth=1, positions="sinusoidal")
        plain = load_config(["sizes/tiny"], []).build("model", vocab_size=64, max_length=8)
        assert plain.layers[0].attention.positions == Rotary(16, 10000.0)
    finally:
        reset_config()
