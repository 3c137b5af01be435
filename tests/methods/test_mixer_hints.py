"""What the optimiser is told of the published mixers' parameters: which of them do not decay, and at which rate they learn."""

from __future__ import annotations

import pytest
from helpers.random_models import extension_of, factory, random_model

from zoo.extension import Hint, preset

Settings = dict[str, object]
# id, settings that make every parameter, those that decay, those that do not: by the last part of their names
TREATED: list[tuple[str, Settings, set[str], set[str]]] = [
    ("canon", {}, set(), {"w"}),
    ("token_shift", {}, set(), {"mu"}),
    ("token_shift_lora", {}, {"a", "b"}, {"mu_x", "lambdas"}),
    ("primer_dconv", {}, set(), {"w"}),
    ("kv_shift", {}, {"w"}, set()),
    ("smear", {}, set(), {"w", "scale"}),
    ("griffin", {}, {"w_in", "w", "w_out"}, {"b_in", "conv", "b_conv", "b", "lam", "b_out"}),
    ("rg_lru", {}, {"w"}, {"b", "lam", "gain"}),
    ("min_gru", {}, {"w_in", "w_out"}, set()),
    ("mamba", {}, {"w_in", "w_x", "w_delta", "w_out"}, {"conv", "b_conv", "b_delta", "a_log", "d"}),
    ("linear_attention", {}, {"w_in", "w_out"}, set()),
    ("retention", {}, {"w_in", "w_out"}, set()),
    ("gla", {"conv": True, "norm": "rms"}, {"w_in", "w_decay", "w_out"}, {"b_gate", "b_decay", "conv", "gain"}),
    ("mamba2", {}, {"w_in", "w_out"}, {"conv", "b_conv", "b_delta", "a_log", "d", "gain"}),
    ("deltanet", {}, {"w_in", "w_out"}, {"conv", "gain"}),
    ("gated_deltanet", {}, {"w_in", "w_out"}, {"conv", "a_log", "b_delta", "gain"}),
    ("cema", {}, set(), {"alpha", "delta", "theta", "gamma", "omega", "gain"}),
]


@pytest.mark.parametrize("id, settings, decaying, others", TREATED, ids=[id for id, *_ in TREATED])
def test_what_decays_and_at_which_rate(id: str, settings: Settings, decaying: set[str], others: set[str]) -> None:
    built = random_model(depth=2, temporal_mixing=preset(factory("temporal_mixing", id), **settings))
    hints: dict[str, Hint] = {}
    for name, parameter in extension_of(built.layers[0], "temporal_mixing").named_parameters():
        # Without a hint matrices decay, and vectors do not.
        hints[name.rpartition(".")[2]] = getattr(parameter, "zoo_hint", Hint(parameter.dim() >= 2, 1.0))
    assert {name for name, hint in hints.items() if hint.decay} == decaying
    assert {name for name, hint in hints.items() if not hint.decay} == others
    assert {hint.lr_factor for hint in hints.values()} == {1.0}
