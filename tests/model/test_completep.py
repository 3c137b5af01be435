"""CompleteP: each row of its table, and a coordinate check over width and depth."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from zoo.errors import ConfigError
from zoo.model.build import model
from zoo.model.language_model import LanguageModel
from zoo.plugins.registry import installed
from zoo.training.optimizer import make_optimizer
from zoo.training.settings import Settings

VOCABULARY, LENGTH = 64, 16


def built(width: int, depth: int, base: tuple[int, int] | None = (32, 2), **settings: Any) -> LanguageModel:
    if base is not None:
        settings |= {"parametrization": "completep", "base_width": base[0], "base_depth": base[1]}
    return model(VOCABULARY, LENGTH, depth=depth, width=width, head_dim=16, **{"seed": 1, **settings})


def tokens(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (8, LENGTH + 1), generator=generator)


def test_at_the_base_size_it_is_the_standard_model_with_scores_over_d() -> None:
    plain, same = built(32, 2, base=None), built(32, 2)
    for (name, one), (_, other) in zip(plain.named_parameters(), same.named_parameters(), strict=True):
        assert torch.equal(one, other), name
    with torch.no_grad():
        for block in plain.layers:
            block.attention.qkv[: block.attention.heads[0] * 16] /= math.sqrt(16)  # q·k / √16 / √16
    torch.testing.assert_close(plain(tokens(1)), same(tokens(1)))


def test_weights_start_with_the_variances_of_the_table() -> None:
    base, large = built(32, 2, tied=False), built(128, 4, tied=False)
    for name, ratio in (
        ("embed.weight", 1.0),
        ("output", 1.0),
        ("layers.0.attention.qkv", 0.5),  # √(32 / 128)
        ("layers.1.attention.out", 0.5),
        ("layers.0.ffn.gate_up", 0.5),
        ("layers.1.ffn.down", 0.5),
    ):
        one, other = dict(base.named_parameters())[name], dict(large.named_parameters())[name]
        assert float((other.std() / one.std()).detach()) == pytest.approx(ratio, rel=0.1), name


def test_branches_and_logits_are_scaled() -> None:
    large = built(128, 6)
    seen = []
    large.norm.register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
    logits = large(tokens(1))
    torch.testing.assert_close(logits, seen[0] @ large.embed.weight.T / 4)
    branch = torch.ones(1, 2, 128)
    torch.testing.assert_close(large.layers[0].dropped(branch), branch / 3)


def test_rates_decays_and_eps_are_those_of_the_table() -> None:
    large = built(128, 6, qk_norm=True)
    made = make_optimizer(large, Settings(lr=0.1, weight_decay=0.2, eps=1e-6))
    groups = {id(p): group for group in made.param_groups for p in group["params"]}
    seen = {}
    for name, parameter in large.named_parameters():
        group = groups[id(parameter)]
        seen[name] = (group["lr"], group["weight_decay"], group["eps"])
    assert seen["layers.3.ffn.down"] == pytest.approx((0.1 / 4, 0.2 * 4, 1e-6 / 12))
    assert seen["layers.3.attention_norm.gain"] == pytest.approx((0.1, 0.0, 1e-6 / 12))
    assert seen["embed.weight"] == pytest.approx((0.1, 0.2, 1e-6 / 4))
    assert seen["norm.gain"] == pytest.approx((0.1, 0.0, 1e-6 / 4))


def test_taps_of_a_method_keep_their_rate() -> None:
    """They are hinted not to decay; its matrices are hidden weights."""
    method = installed().get("temporal_mixing", "mamba2").factory
    large = built(128, 6, temporal_mixing=method)
    made = make_optimizer(large, Settings(lr=0.1, weight_decay=0.2, eps=1e-6))
    treated = {id(p): (group["lr"], group["weight_decay"]) for group in made.param_groups for p in group["params"]}
    rates = {name.removeprefix("layers.2.temporal_mixing."): treated[id(p)] for name, p in large.named_parameters()}
    assert rates["conv"] == (0.1, 0.0)
    assert rates["w_in"] == rates["w_out"] == pytest.approx((0.1 / 4, 0.2 * 4))


def size_after_training(*size: int, base: tuple[int, int] | None = (32, 2)) -> float:
    """The root mean square of the last layer's output after five steps, the mean over three starts."""
    return sum(_size_after_training(built(*size, base=base, seed=seed)) for seed in (1, 2, 3)) / 3


def _size_after_training(made: LanguageModel) -> float:
    optimizer = make_optimizer(made, Settings(lr=0.02))
    for seed in range(5):
        rows = tokens(seed)
        made.loss(rows[:, :-1], rows[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad()
    name = f"layer {len(made.layers)} output"
    stream = next(value for where, value in made.inspect(tokens(9)[:, :-1]) if where.startswith(name))
    return float(stream.square().mean().sqrt())


def slope(sizes: list[int], outputs: list[float]) -> float:
    """The exponent of the outputs in the size."""
    return math.log(outputs[-1] / outputs[0]) / math.log(sizes[-1] / sizes[0])


def test_activations_keep_their_size_over_width_and_do_not_otherwise() -> None:
    widths = [64, 256]
    assert abs(slope(widths, [size_after_training(width, 2) for width in widths])) < 0.3
    assert slope(widths, [size_after_training(width, 2, base=None) for width in widths]) > 1


def test_activations_keep_their_size_over_depth_and_do_not_otherwise() -> None:
    depths = [2, 16]
    assert abs(slope(depths, [size_after_training(32, depth) for depth in depths])) < 0.15
    assert slope(depths, [size_after_training(32, depth, base=None) for depth in depths]) > 0.5


def test_what_it_does_not_go_with_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"bind model\.base_width and model\.base_depth"):
        model(VOCABULARY, LENGTH, depth=2, width=32, head_dim=16, parametrization="completep")
    with pytest.raises(ConfigError, match=r"'muon' scales its steps .* leave one of them out"):
        make_optimizer(built(64, 2), Settings(optimizer="muon"))
    again = installed().get("residual", "v3_m1").factory
    with pytest.raises(ConfigError, match=r"runs lower layers again"):
        built(32, 2, residual=again)


def test_methods_and_decoding_work_in_it() -> None:
    from fairseq2.nn import IncrementalStateBag

    made = built(
        64, 4, qk_norm=True, num_kv_heads=2, score_mixing=installed().get("score_mixing", "v4_m1").factory
    ).eval()
    rows = tokens(2)
    with torch.no_grad():
        whole = made(rows)
        bag = IncrementalStateBag(LENGTH + 1)
        steps = []
        for index in range(LENGTH + 1):
            steps.append(made(rows[:, index : index + 1], state_bag=bag))
            if index < LENGTH:
                bag.increment_step_nr()
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, atol=1e-5, rtol=1e-4)
