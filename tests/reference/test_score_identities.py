"""The reference's score-mixing methods against the catalogue's identities."""

import math

import pytest
import torch

from . import Method
from .blocks import attend, causal_softmax
from .cases import (
    HEAD,
    TMAX,
    WEIGHTS,
    D,
    H,
    L,
    T,
    differ,
    normal,
    ones,
    run,
    same,
    some_u,
    zeros,
)


def _score(id, **params):
    """A score method; each parameter is a function of m."""
    return run(score=Method(id, [{name: make(m) for name, make in params.items()} for m in range(1, L + 1)]))


def _tokenwise(width):
    torch.manual_seed(5)
    return {
        "w1": lambda m: normal(D, width(m)),
        "w2": lambda m: zeros(width(m), width(m)),
        "b": lambda m: ones(width(m)),
    }


def _score_inits():
    root = math.log(math.sqrt(HEAD))
    return {
        "v4_m4": ("v4_m3", {"a": lambda m: 0.5 * ones(), "b": lambda m: ones()}),
        "v4_m5": ("v4_m1", {"log_a": zeros}),
        "v4_m6": ("v4_m1", {"log_a": zeros, "b": lambda m: 0.5 * ones(m)}),
        "v4_m7": ("v4_m1", {"log_a": lambda m: root * ones(m)}),
        "v4_m1a": ("v4_m1", {"w": lambda m: ones(m, TMAX, TMAX)}),
        "v4_m1b": ("v4_m1", {"w": lambda m: ones(m, TMAX)}),
        "v4_m1c": ("v4_m1", {"w": lambda m: ones(m, TMAX)}),
        "v4_m1d": ("v4_m1", _tokenwise(lambda m: m)),
        "v4_m1e": ("v4_m1", _tokenwise(lambda m: m)),
        "v4_mc": (None, {"w": lambda m: ones(TMAX)}),
        "v4_md": (None, _tokenwise(lambda m: 1)),
    }


@pytest.mark.parametrize("id", _score_inits())
def test_score_starts_as(id):
    start, params = _score_inits()[id]
    same(_score(id, **params), run(score=Method(start, []) if start else None))


def test_score_weights_are_on_the_side_the_catalogue_says():
    query, key = normal(L, TMAX), normal(L, TMAX)
    same(
        _score("v4_m1a", w=lambda m: query[:m, :, None].expand(m, TMAX, TMAX)), _score("v4_m1c", w=lambda m: query[:m])
    )
    same(_score("v4_m1a", w=lambda m: key[:m, None, :].expand(m, TMAX, TMAX)), _score("v4_m1b", w=lambda m: key[:m]))
    differ(_score("v4_m1b", w=lambda m: key[:m]), _score("v4_m1c", w=lambda m: key[:m]))


def test_second_order_mixing_is_the_pattern_twice():
    """Closed gates give the baseline; open ones give A² V, whose rows sum to 1 and which sees no future."""
    same(_score("wr_attatt", gamma=lambda m: -1e3 * ones(H)), run())
    differ(_score("wr_attatt", gamma=lambda m: -4 * ones(H)), run())
    pattern = causal_softmax(normal(2, H, T, T))
    u, layer = some_u(), WEIGHTS.layers[0]
    once = attend(pattern @ pattern, u, layer, WEIGHTS)
    same(attend(pattern, u, layer, WEIGHTS, ones(H)), once)
    same((pattern @ pattern).sum(dim=-1), ones(2, H, T))


def test_m2_and_m3_are_m5_with_fixed_weights():
    same(_score("v4_m5", log_a=lambda m: math.log(m) / 2 * ones(m)), run(score=Method("v4_m2", [])))
    same(_score("v4_m5", log_a=lambda m: math.log(m) * ones(m)), run(score=Method("v4_m3", [])))
