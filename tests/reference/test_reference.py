"""The reference against an independent plain forward pass; causality, effect and gradient of every method."""

import pytest
import torch
import torch.nn.functional as F

from . import Method, residual, temporal
from .cases import (
    ALL,
    EPS,
    HEAD,
    HKV,
    HOSTS,
    TOKENS,
    WEIGHTS,
    D,
    H,
    L,
    T,
    V,
    differ,
    method_of,
    ones,
    run,
    same,
    zeros,
)


@pytest.mark.parametrize("host", HOSTS)
def test_plain_host_is_llama(host):
    def norm(x, gain):
        return F.rms_norm(x, (D,), gain, EPS)

    def rotate(x):  # complex numbers instead of the reference's sines
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], HEAD // 2, 2))
        frequency = 100.0 ** (-torch.arange(0, HEAD, 2, dtype=torch.float64) / HEAD)
        angle = torch.outer(torch.arange(T, dtype=torch.float64), frequency)
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)

    def split(x, count):
        return x.view(2, T, count, HEAD).transpose(1, 2)

    x = F.embedding(TOKENS, WEIGHTS.embedding)
    for layer in WEIGHTS.layers:
        u = norm(x, layer.norm1)
        q, k = rotate(split(F.linear(u, layer.wq), H)), rotate(split(F.linear(u, layer.wk), HKV))
        v = split(F.linear(u, layer.wv), HKV).repeat_interleave(H // HKV, dim=1)
        a = F.scaled_dot_product_attention(q, k.repeat_interleave(H // HKV, dim=1), v, is_causal=True)
        a = F.linear(a.transpose(1, 2).reshape(2, T, D), layer.wo)
        u = norm(x + a if host == "sequential" else x, layer.norm2)
        x = x + a + F.linear(F.silu(F.linear(u, layer.gate)) * F.linear(u, layer.up), layer.down)
    same(run(host), F.linear(norm(x, WEIGHTS.final_norm), WEIGHTS.output))


def _variants():
    """Every method with every value of its settings."""
    for slot, id in ALL:
        options = [{}]
        if id in residual.V1:
            options = [{"first": first} for first in ("standard", "embedding", "zero")]
        if id in residual.V3:
            options = [{"keep_skip": keep} for keep in (False, True)]
        if slot == "temporal":
            options = [{"site": site} for site in temporal.SITES]
            if id.startswith("wr_7"):  # after the last layer nothing is normed, and 1 − a² is rounded to 0
                options.remove({"site": "output"})
        if id == "wr_7_log":
            options += [{"norm": True}]
        if id in ("wr_7_1", "wr_7_1_log"):
            options += [{"norm": False}]
        if id == "wr_7_2":
            options += [{"skip": True}]
        if id in ("wr_8_2_2", "wr_9_log"):
            options += [{"scaled": True}]
        if id == "wr_9":
            options += [{"values": "token"}]
        for settings in options:
            yield pytest.param(slot, id, settings, id="-".join([id, *map(str, settings.values())]))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("slot", "id", "settings"), _variants())
def test_causal_effective_and_differentiable(slot, id, settings, host):
    method = method_of(slot, id, host, **settings)
    out = run(host, **{slot: method})
    assert out.shape == (2, T, V)
    assert out.isfinite().all()
    differ(out, run(host))

    others = torch.stack([TOKENS[0]] * (T - 1))  # row t differs in token t + 1 only
    for t in range(T - 1):
        others[t, t + 1] = (others[t, t + 1] + 1) % V
    changed = run(host, others, **{slot: method})
    leaked = False
    for t in range(T - 1):
        differ(changed[t, t + 1], out[0, t + 1])
        leaked |= not torch.allclose(changed[t, : t + 1], out[0, : t + 1], rtol=1e-12, atol=1e-12)
    assert leaked == (id == "wr_9_log")

    if any(method.params):
        out.square().sum().backward()
    for m, params in enumerate(method.params, start=1):
        for name, tensor in params.items():
            assert tensor.grad.isfinite().all(), name
            if (id, name, m) != ("v4_m4", "b", 1):  # 1^b
                assert tensor.grad.abs().max() > 0, name


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("site", temporal.SITES)
@pytest.mark.parametrize("residual_id", ["v1_m6", "v3_m1", "v3_m4_2", "skip_normed"])
def test_three_slots_together(residual_id, site, host):
    slots = {
        "residual": method_of("residual", residual_id, host),
        "score": method_of("score", "v4_m1d", host),
        "temporal": method_of("temporal", "wr_8_2", host, site=site),
    }
    out = run(host, **slots)
    other = TOKENS.clone()
    other[:, -1] = (other[:, -1] + 1) % V
    same(run(host, other, **slots)[:, :-1], out[:, :-1])
    for slot in slots:
        if slot == "score" and (site == "attention"):
            continue  # there are no scores
        differ(run(host, **{name: method for name, method in slots.items() if name != slot}), out)


def test_wrong_names_are_refused():
    with pytest.raises(ValueError, match="unknown residual method"):
        run(residual=Method("v1_m8", []))
    with pytest.raises(ValueError, match="unknown settings"):
        run(residual=Method("v1_m1", [], {"frist": "zero"}))
    with pytest.raises(ValueError, match="unknown parameters"):
        run(residual=Method("skip_scalar", [{"skip": ones()}] * L))  # the parallel host's name
    with pytest.raises(TypeError):
        run(temporal=Method("wr_1", [{"gama": zeros()}] * L))
    with pytest.raises(TypeError):
        run(score=Method("v4_m5", [{"a": ones(m)} for m in range(1, L + 1)]))
