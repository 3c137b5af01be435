"""The reference's residual methods against the catalogue's identities."""

import math

import pytest

from . import Method, logits, residual
from .blocks import attend, causal_softmax, products, rms_norm, swiglu
from .cases import (
    EPS,
    HEAD,
    HOSTS,
    TOKENS,
    WEIGHTS,
    L,
    normal,
    ones,
    residual_shapes,
    run,
    same,
    zeros,
)


def _two_hop():
    """x_{m+1} = x_m + FFN(N2(x_m + a_m)), by an attention site that only the FFN reads."""
    x = WEIGHTS.embedding[TOKENS]
    for layer in WEIGHTS.layers:
        u = rms_norm(x, EPS, layer.norm1)
        probabilities = causal_softmax(products(u, layer, WEIGHTS) / math.sqrt(HEAD))
        a = attend(probabilities, u, layer, WEIGHTS)
        x = x + swiglu(rms_norm(x + a, EPS, layer.norm2), layer)
    return rms_norm(x, EPS, WEIGHTS.final_norm) @ WEIGHTS.output.T


def test_v1_m3_and_m6_are_two_hop():
    for id in ("v1_m3", "v1_m6"):
        same(run(residual=Method(id, [], {"first": "embedding"})), _two_hop())


def _plain(host, depth):
    return logits(TOKENS, WEIGHTS._replace(layers=WEIGHTS.layers[:depth]), host=host)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("id", [*residual.V1, *residual.V2, *residual.V3])
def test_first_layer_is_standard(id, host):
    method = Method(id, [])
    same(logits(TOKENS, WEIGHTS._replace(layers=WEIGHTS.layers[:1]), host=host, residual=method), _plain(host, 1))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("learned", "fixed"), [("v2_m3", "v2_m1"), ("v3_m3_2", "v3_m3_1"), ("v3_m4_2", "v3_m4_1")])
def test_learned_mean_starts_flat(learned, fixed, host):
    flat = [{}, *({"w": zeros(m)} for m in range(2, L + 1))]
    same(run(host, residual=Method(learned, flat)), run(host, residual=Method(fixed, [])))


@pytest.mark.parametrize("host", HOSTS)
def test_v3_values_is_v3_m2_with_its_skip(host):
    kept = Method("v3_m2", [], {"keep_skip": True})
    same(run(host, residual=Method("v3_values", [])), run(host, residual=kept))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("id", ["skip_scalar", "skip_vector", "skip_attention_gain", "skip_gains", "skip_normed"])
def test_skip_starts_as_baseline(id, host):
    params = [
        {
            name: zeros(*shape) if name == "normed_gain" else ones(*shape)
            for name, shape in residual_shapes(id, m, host).items()
        }
        for m in range(1, L + 1)
    ]
    same(run(host, residual=Method(id, params)), run(host))


@pytest.mark.parametrize("host", HOSTS)
def test_skip_gains_log_is_skip_gains_with_another_start(host):
    names = residual_shapes("skip_gains_log", 1, host)
    assert names == residual_shapes("skip_gains", 1, host)
    params = [{name: normal(*shape) for name, shape in names.items()} for _ in range(L)]
    same(run(host, residual=Method("skip_gains_log", params)), run(host, residual=Method("skip_gains", params)))


@pytest.mark.parametrize("host", HOSTS)
def test_v2_clt_starts_as_baseline_and_its_factors_are_a_matrix(host):
    shapes = [residual_shapes("v2_clt", m, host) for m in range(1, L + 1)]
    factors = [{name: normal(*shape) for name, shape in layer.items()} for layer in shapes]
    whole = [{"d": layer["u"] @ layer["v"]} if layer else {} for layer in factors]
    same(run(host, residual=Method("v2_clt", factors)), run(host, residual=Method("v2_clt", whole)))
    silent = [layer | {"v": zeros(*layer["v"].shape)} if layer else {} for layer in factors]
    same(run(host, residual=Method("v2_clt", silent)), run(host))
