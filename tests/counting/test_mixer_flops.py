"""FLOPs per token of the published mixers: what their cards say is what the counter finds."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from helpers.random_models import factory
from torch import Tensor

from zoo.counting import flops
from zoo.extension import Layer, TemporalMixing, preset
from zoo.model.build import model
from zoo.state import State

D, H, T, C = 64, 4, 96, 16  # width, heads, length, chunk
EACH = D // H
E, N, P, R = 2 * D, 64, 64, D // 16  # of mamba and mamba2: inner width, states, head width, rank
FIRST = C / T  # the first chunk's share of the tokens: it has no state to read


class Through(TemporalMixing):
    """Its input, in attention's place: what is left is the FFN, the embedding and the output."""

    site = "attention"

    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return u


def per_token(temporal_mixing: Callable[..., TemporalMixing] | None) -> float:
    build = functools.partial(model, 50, T, depth=1, width=D, head_dim=EACH, temporal_mixing=temporal_mixing)
    return sum(flops.forward_flops(build, T))


def in_chunks(keys: int, values: int, heads: int = H) -> float:
    """2c(K + V) + 4KV per head: scores, what they weigh, the state written and read."""
    return heads * (2 * C * (keys + values) + 4 * keys * values - 2 * keys * values * FIRST)


def by_delta_rule(keys: int, values: int) -> float:
    """c(6K + 4V + c) + 2K² + 6KV + 2K²V/c per head."""
    square = keys * keys * values
    each = C * (6 * keys + 4 * values + C) + 2 * keys**2 + 6 * keys * values + 2 * square / C
    return H * (each - (4 * keys * values + 2 * square / C) * FIRST)


COSTS = {
    "linear_attention": 8 * D**2 + in_chunks(EACH, EACH + 1),  # the denominator is a channel
    "retention": 10 * D**2 + in_chunks(EACH, EACH),
    "gla": 8 * D**2 + in_chunks(EACH // 2, EACH) + 2 * D * 16 + 16 * D,  # the gate of rank 16
    # B and C are shared by the heads: their scores are made once
    "mamba2": 12 * D**2 + 4 * N * D + 2 * D * (E // P) + 2 * C * N + 2 * C * E + 4 * N * E - 2 * N * E * FIRST,
    "deltanet": 8 * D**2 + 2 * H * D + by_delta_rule(EACH, EACH),
    "gated_deltanet": 12 * D**2 + 4 * H * D + by_delta_rule(3 * EACH // 4, 3 * EACH // 2),
    "mamba": 2 * (6 * D**2 + E * (2 * R + 2 * 16)) + 2 * E * 16,  # of 16 states
}


@pytest.mark.parametrize("id", COSTS)
def test_in_attentions_place(id: str) -> None:
    mixer = preset(factory("temporal_mixing", id), chunk=C)
    assert per_token(mixer) - per_token(Through) == pytest.approx(COSTS[id], rel=1e-9)


def test_of_the_maps_of_token_shift_lora() -> None:
    """4 rank D for each consumer: query, key, value and the FFN."""
    assert per_token(factory("temporal_mixing", "token_shift_lora")) - per_token(None) == 4 * 4 * 32 * D
