"""Every reference: causal, of one row only, at any depth and length, live in every parameter, and starting as it says."""

import pytest
import torch
from helpers.random_models import random_model, reference_weights, tokens

import reference

from . import REFERENCES
from .cases import (
    HOSTS,
    VOCABULARY,
    baseline,
    cases,
    differ,
    random_params,
    run,
    same,
    setup,
    start_params,
)
from .host import Model
from .mixer import Mixer
from .starts import complaint

CASES = [
    pytest.param(id, settings, id="-".join([id, *(f"{k}={v}" for k, v in settings.items())]))
    for id, settings in cases()
]
EVERY = pytest.mark.parametrize(("id", "settings"), CASES)
EITHER = pytest.mark.parametrize("host", HOSTS)
# (id, host): attention has no effect there
BLIND = {("two_hop", "parallel")}
# settings that make a reference start as the baseline which does not do so by default
PLAIN_VARIANTS = {
    ("lime", ("zero",)),
    ("gated_attention", ("doubled",)),
    ("cosine_attention", ("norm",)),
    ("mta", ("norm", "gate", "conv_first", "head_group", "rows", "keys")),
}


@EITHER
def test_the_plain_model_is_the_older_references_host(host):
    given = setup(host)
    same(baseline(given), reference.logits(given.tokens, given.weights, host=host))


@EITHER
def test_the_plain_model_is_the_zoos(host):
    built = random_model(parallel=host == "parallel", num_kv_heads=2)
    layers = [block.layer for block in built.layers]
    theirs = Model().logits(tokens(2, 5), reference_weights(built), [{}] * len(layers), layers)
    same(built(tokens(2, 5)), theirs)


@EITHER
@EVERY
def test_causal_and_of_one_row(id, settings, host):
    given = setup(host, length=5)
    model = REFERENCES[id].build(**settings)
    params = random_params(model, given.layers)
    out = run(model, given, params)
    assert out.shape == (2, 5, VOCABULARY)
    assert out.isfinite().all()
    differ(out, baseline(given))
    for t in range(1, 5):
        others = given.tokens.clone()
        others[0, t] = (others[0, t] + 1) % VOCABULARY
        changed = run(model, given._replace(tokens=others), params)
        same(changed[0, :t], out[0, :t])
        same(changed[1], out[1])
        differ(changed[0, t], out[0, t])
        if t < 4 and (id, host) not in BLIND:
            differ(changed[0, t + 1 :], out[0, t + 1 :])


SHAPES = [(1, 1, 2, 2), (2, 1, 4, 4), (5, 3, 4, 2)]  # depth, length, heads, key heads


@EITHER
@EVERY
def test_any_depth_and_length(id, settings, host):
    model = REFERENCES[id].build(**settings)
    for depth, length, heads, kv_heads in SHAPES:
        given = setup(host, depth=depth, length=length, heads=heads, kv_heads=kv_heads)
        for params in (random_params(model, given.layers), start_params(model, given.layers)):
            assert run(model, given, params).isfinite().all()


def idle(id: str, host: str, m: int, name: str) -> bool:
    """Whether a parameter has no effect, by definition."""
    one_source = ["w_attention", "w_ffn"] if host == "parallel" else ["w_attention"]
    return id.startswith("attnres") and m == 1 and name in one_source


@EITHER
@EVERY
def test_every_parameter_has_a_gradient(id, settings, host):
    given = setup(host, length=5)
    model = REFERENCES[id].build(**settings)
    params = random_params(model, given.layers, grad=True)
    out = run(model, given, params)
    if not any(params):
        return
    (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)).sum().backward()
    for m, own in enumerate(params, start=1):
        for name, value in own.items():
            if idle(id, host, m, name):
                assert value.grad is None or value.grad.abs().max() < 1e-12, (m, name)
            else:
                assert value.grad is not None and value.grad.abs().max() > 1e-9, (m, name)


def adds_nothing(model: Model) -> bool:
    """Whether it is a mixer that is added to what it reads, by an output matrix or a gain from 0."""
    return isinstance(model, Mixer) and model.added()


@EITHER
@EVERY
def test_starts(id, settings, host):
    given = setup(host, depth=4)
    model = REFERENCES[id].build(**settings)
    params = start_params(model, given.layers)
    for layer, own in zip(given.layers, params, strict=True):
        for name, start in model.start(layer).items():
            assert complaint(start, own[name]) is None
            assert complaint(start, own[name] + 10) is not None
    out = run(model, given, params)
    other = REFERENCES[id].starts_as
    if other == "baseline":
        tolerance = 1e-4 if settings.get("floor") or settings.get("sum") else 1e-10
        same(out, baseline(given), tolerance)
    elif other is not None:
        twin = REFERENCES[other].build(**{name: v for name, v in settings.items() if name == "sites"})
        same(out, run(twin, given, start_params(twin, given.layers)))
    elif (id, tuple(settings)) in PLAIN_VARIANTS or adds_nothing(model):
        same(out, baseline(given))
    else:
        differ(out, baseline(given))


def test_wrong_names_and_shapes_are_refused():
    given = setup()
    with pytest.raises(ValueError, match="unknown settings"):
        REFERENCES["mhc"].build(m=2)
    model = REFERENCES["layer_scale"].build()
    params = random_params(model, given.layers)
    with pytest.raises(ValueError, match="layer 1"):
        run(model, given, [{}] * 3)
    params[1]["gamma_ffn"] = params[1]["gamma_ffn"][:2]
    with pytest.raises(ValueError, match="layer 2"):
        run(model, given, params)
    with pytest.raises(ValueError, match="unknown settings"):
        Model(site="ffn")
    with pytest.raises(ValueError, match="even"):
        REFERENCES["differential"].build().shapes(setup(heads=3, kv_heads=3).layers[0])
