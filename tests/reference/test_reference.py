"""The reference against the catalogue's identities, causality, and an independent plain forward pass."""

import math

import pytest
import torch
import torch.nn.functional as F

from . import METHODS, LayerWeights, Method, Weights, logits, residual, temporal
from .blocks import attend, causal_softmax, products, rms_norm, swiglu

L, D, H, HKV, FFN, V, T, TMAX, N, R = 3, 16, 4, 2, 12, 11, 6, 8, 3, 12
HEAD = D // H
EPS = 1e-5
HOSTS = ["sequential", "parallel"]
ALL = [(slot, id) for slot, ids in METHODS.items() for id in ids]


def _normal(*shape, scale=0.5):
    return scale * torch.randn(shape, dtype=torch.float64)


def _ones(*shape):
    return torch.ones(shape, dtype=torch.float64)


def _zeros(*shape):
    return torch.zeros(shape, dtype=torch.float64)


def _weights():
    torch.manual_seed(0)
    layers = [
        LayerWeights(
            norm1=1 + _normal(D, scale=0.1),
            wq=_normal(D, D),
            wk=_normal(HKV * HEAD, D),
            wv=_normal(HKV * HEAD, D),
            wo=_normal(D, D),
            norm2=1 + _normal(D, scale=0.1),
            gate=_normal(FFN, D),
            up=_normal(FFN, D),
            down=_normal(D, FFN),
        )
        for _ in range(L)
    ]
    return Weights(_normal(V, D, scale=1), layers, 1 + _normal(D, scale=0.1), _normal(V, D), H, HKV, EPS, 100.0)


def _tokens():
    return torch.randint(V, (2, T), generator=torch.Generator().manual_seed(1))


WEIGHTS, TOKENS = _weights(), _tokens()

SCALAR, GATE = (), {"gate_w": (D, D), "gate_b": (D,)}
RGLRU = {"w_r": (D, D), "b_r": (D,), "w_i": (D, D), "b_i": (D,), "lam": SCALAR}
REC = {**GATE, "w": (N,)}
BLOCKS = (H, R // H, R // H)
TEMPORAL_SHAPES = {
    "wr_1": {"gamma": SCALAR},
    "wr_2": {"w": (D, 2 * D), "bias": (D,)},
    "wr_3": {"gamma": SCALAR, "w": (D, 2 * D), "bias": (D,)},
    "wr_3_1": GATE,
    "wr_3_2": {**GATE, "gamma": SCALAR},
    "wr_4": {"w_r": (D, 2 * D), "w_z": (D, 2 * D), "w": (D, 2 * D)},
    "wr_5": {"gamma1": SCALAR, "gamma2": SCALAR},
    "wr_6": {"gamma1": SCALAR, "gamma2": SCALAR},
    "wr_6_1": {"gamma": SCALAR},
    "wr_7": RGLRU,
    "wr_7_log": RGLRU,
    "wr_7_1": {**RGLRU, "w": (N,)},
    "wr_7_2": {
        **{"w_y": (R, D), "b_y": (R,), "w_x": (R, D), "b_x": (R,), "conv_w": (R, 4), "conv_b": (R,)},
        **{"w_r": BLOCKS, "b_r": (R,), "w_i": BLOCKS, "b_i": (R,), "lam": (R,), "w_out": (D, R), "b_out": (D,)},
    },
    "wr_8": {**GATE, "kernel": (N,), "bias": SCALAR},
    "wr_8_log": {**GATE, "kernel": (N,), "bias": SCALAR},
    "wr_8_1": {**GATE, "kernel": (N,), "bias": SCALAR},
    "wr_8_2": REC,
    "wr_8_2_skip": {**REC, "rho": SCALAR},
    "wr_8_2_gate": {**REC, "s": SCALAR},
    "wr_8_2_gains": {**REC, "rho": SCALAR, "kappa": SCALAR},
    "wr_8_2_1": {**REC, "h": (D, D), "b": (D,)},
    "wr_8_2_2": {**REC, "h": (D, D), "b": (D,)},
    "wr_8_2_3": {**REC, "m": (D, 2 * D), "b": (D,)},
    "wr_8_2_4": {**REC, "m": (D, 2 * D), "b": (D,), "h": (D, D)},
    "wr_8_3": {**GATE, "w": (D, N)},
    "wr_8_3_log": {**GATE, "w": (D, D // 2, N)},
    "wr_9": {**REC, "w_a": (D, D)},
    "wr_9_log": {**REC, "a": (TMAX, D)},
    "wr_attend": {"w1": (D, D), "gamma": SCALAR},
    "wr_mean": {"w1": (D, D), "gamma": SCALAR},
}


def _score_shapes(id, m):
    return {
        "v4_m4": {"a": SCALAR, "b": SCALAR},
        "v4_m5": {"log_a": (m,)},
        "v4_m6": {"log_a": (m,), "b": (m,)},
        "v4_m7": {"log_a": (m,)},
        "v4_m1a": {"w": (m, TMAX, TMAX)},
        "v4_m1b": {"w": (m, TMAX)},
        "v4_m1c": {"w": (m, TMAX)},
        "v4_m1d": {"w1": (D, m), "w2": (m, m), "b": (m,)},
        "v4_m1e": {"w1": (D, m), "w2": (m, m), "b": (m,)},
        "v4_mc": {"w": (TMAX,)},
        "v4_md": {"w1": (D, 1), "w2": (1, 1), "b": (1,)},
    }.get(id, {})


def _residual_shapes(id, m, host):
    if id in ("v2_m3", "v3_m3_2", "v3_m4_2"):
        return {"w": (m,)} if m >= 2 else {}
    if not id.startswith("skip"):
        return {}
    shape = (D,) if id == "skip_vector" else SCALAR
    names = ["skip"] if host == "parallel" else ["skip_attention", "skip_ffn"]
    names += ["attention_gain"] if id in ("skip_attention_gain", "skip_gains") else []
    names += ["ffn_gain"] if id == "skip_gains" else []
    names += ["normed_gain"] if id == "skip_normed" else []
    return dict.fromkeys(names, shape)


def _method(slot, id, host, **settings):
    """A method with random parameters."""
    torch.manual_seed(2)
    if slot == "temporal":
        shapes = [TEMPORAL_SHAPES[id]] * L
        if id == "wr_8_3_log":
            settings["groups"] = 2
    elif slot == "score":
        shapes = [_score_shapes(id, m) for m in range(1, L + 1)]
    else:
        shapes = [_residual_shapes(id, m, host) for m in range(1, L + 1)]
    params = [{name: _normal(*shape).requires_grad_() for name, shape in layer.items()} for layer in shapes]
    return Method(id, params, settings)


def _run(host="sequential", tokens=TOKENS, **slots):
    return logits(tokens, WEIGHTS, host=host, **slots)


def _same(left, right):
    torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


def _differ(left, right):
    assert (left - right).abs().max() > 1e-6


def _u():
    torch.manual_seed(3)
    return _normal(2, T, D, scale=1)


def _mix(id, u, params, **settings):
    return temporal.mix(id, u, params, settings, num_heads=H, eps=EPS)


def _params(id, **changes):
    """Random parameters of one layer; what `changes` names is replaced, None drops it."""
    torch.manual_seed(4)
    params = {name: _normal(*shape) for name, shape in TEMPORAL_SHAPES[id].items()} | changes
    return {name: value for name, value in params.items() if value is not None}


# The host


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
    _same(_run(host), F.linear(norm(x, WEIGHTS.final_norm), WEIGHTS.output))


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
        if id == "wr_7_log":
            options += [{"norm": True}]
        if id == "wr_8_2_2":
            options += [{"scaled": True}]
        for settings in options:
            yield pytest.param(slot, id, settings, id="-".join([id, *map(str, settings.values())]))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("slot", "id", "settings"), _variants())
def test_causal_effective_and_differentiable(slot, id, settings, host):
    method = _method(slot, id, host, **settings)
    out = _run(host, **{slot: method})
    assert out.shape == (2, T, V)
    assert out.isfinite().all()
    _differ(out, _run(host))

    others = torch.stack([TOKENS[0]] * (T - 1))  # row t differs in token t + 1 only
    for t in range(T - 1):
        others[t, t + 1] = (others[t, t + 1] + 1) % V
    changed = _run(host, others, **{slot: method})
    leaked = False
    for t in range(T - 1):
        _differ(changed[t, t + 1], out[0, t + 1])
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
        "residual": _method("residual", residual_id, host),
        "score": _method("score", "v4_m1d", host),
        "temporal": _method("temporal", "wr_8_2", host, site=site),
    }
    out = _run(host, **slots)
    other = TOKENS.clone()
    other[:, -1] = (other[:, -1] + 1) % V
    _same(_run(host, other, **slots)[:, :-1], out[:, :-1])
    for slot in slots:
        if slot == "score" and (site == "attention"):
            continue  # there are no scores
        _differ(_run(host, **{name: method for name, method in slots.items() if name != slot}), out)


def test_wrong_names_are_refused():
    with pytest.raises(ValueError, match="unknown residual method"):
        _run(residual=Method("v1_m8", []))
    with pytest.raises(ValueError, match="unknown settings"):
        _run(residual=Method("v1_m1", [], {"frist": "zero"}))
    with pytest.raises(ValueError, match="unknown parameters"):
        _run(residual=Method("skip_scalar", [{"skip": _ones()}] * L))  # the parallel host's name
    with pytest.raises(TypeError):
        _run(temporal=Method("wr_1", [{"gama": _zeros()}] * L))
    with pytest.raises(TypeError):
        _run(score=Method("v4_m5", [{"a": _ones(m)} for m in range(1, L + 1)]))


# Residual identities


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
        _same(_run(residual=Method(id, [], {"first": "embedding"})), _two_hop())


def _plain(host, depth):
    return logits(TOKENS, WEIGHTS._replace(layers=WEIGHTS.layers[:depth]), host=host)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("id", [*residual.V1, *residual.V2, *residual.V3])
def test_first_layer_is_standard(id, host):
    method = Method(id, [])
    _same(logits(TOKENS, WEIGHTS._replace(layers=WEIGHTS.layers[:1]), host=host, residual=method), _plain(host, 1))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("learned", "fixed"), [("v2_m3", "v2_m1"), ("v3_m3_2", "v3_m3_1"), ("v3_m4_2", "v3_m4_1")])
def test_learned_mean_starts_flat(learned, fixed, host):
    flat = [{}, *({"w": _zeros(m)} for m in range(2, L + 1))]
    _same(_run(host, residual=Method(learned, flat)), _run(host, residual=Method(fixed, [])))


@pytest.mark.parametrize("host", HOSTS)
def test_v3_values_is_v3_m2_with_its_skip(host):
    kept = Method("v3_m2", [], {"keep_skip": True})
    _same(_run(host, residual=Method("v3_values", [])), _run(host, residual=kept))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("id", ["skip_scalar", "skip_vector", "skip_attention_gain", "skip_gains", "skip_normed"])
def test_skip_starts_as_baseline(id, host):
    params = [
        {
            name: _zeros(*shape) if name == "normed_gain" else _ones(*shape)
            for name, shape in _residual_shapes(id, m, host).items()
        }
        for m in range(1, L + 1)
    ]
    _same(_run(host, residual=Method(id, params)), _run(host))


# Score identities


def _score(id, **params):
    """A score method; each parameter is a function of m."""
    return _run(score=Method(id, [{name: make(m) for name, make in params.items()} for m in range(1, L + 1)]))


def _tokenwise(width):
    torch.manual_seed(5)
    return {
        "w1": lambda m: _normal(D, width(m)),
        "w2": lambda m: _zeros(width(m), width(m)),
        "b": lambda m: _ones(width(m)),
    }


def _score_inits():
    root = math.log(math.sqrt(HEAD))
    return {
        "v4_m4": ("v4_m3", {"a": lambda m: 0.5 * _ones(), "b": lambda m: _ones()}),
        "v4_m5": ("v4_m1", {"log_a": _zeros}),
        "v4_m6": ("v4_m1", {"log_a": _zeros, "b": lambda m: 0.5 * _ones(m)}),
        "v4_m7": ("v4_m1", {"log_a": lambda m: root * _ones(m)}),
        "v4_m1a": ("v4_m1", {"w": lambda m: _ones(m, TMAX, TMAX)}),
        "v4_m1b": ("v4_m1", {"w": lambda m: _ones(m, TMAX)}),
        "v4_m1c": ("v4_m1", {"w": lambda m: _ones(m, TMAX)}),
        "v4_m1d": ("v4_m1", _tokenwise(lambda m: m)),
        "v4_m1e": ("v4_m1", _tokenwise(lambda m: m)),
        "v4_mc": (None, {"w": lambda m: _ones(TMAX)}),
        "v4_md": (None, _tokenwise(lambda m: 1)),
    }


@pytest.mark.parametrize("id", _score_inits())
def test_score_starts_as(id):
    start, params = _score_inits()[id]
    _same(_score(id, **params), _run(score=Method(start, []) if start else None))


def test_score_weights_are_on_the_side_the_catalogue_says():
    query, key = _normal(L, TMAX), _normal(L, TMAX)
    _same(
        _score("v4_m1a", w=lambda m: query[:m, :, None].expand(m, TMAX, TMAX)), _score("v4_m1c", w=lambda m: query[:m])
    )
    _same(_score("v4_m1a", w=lambda m: key[:m, None, :].expand(m, TMAX, TMAX)), _score("v4_m1b", w=lambda m: key[:m]))
    _differ(_score("v4_m1b", w=lambda m: key[:m]), _score("v4_m1c", w=lambda m: key[:m]))


def test_m2_and_m3_are_m5_with_fixed_weights():
    _same(_score("v4_m5", log_a=lambda m: math.log(m) / 2 * _ones(m)), _run(score=Method("v4_m2", [])))
    _same(_score("v4_m5", log_a=lambda m: math.log(m) * _ones(m)), _run(score=Method("v4_m3", [])))


# Temporal identities


def test_wr_5_is_wr_6():
    params = _params("wr_5")
    _same(_mix("wr_5", _u(), params), _mix("wr_6", _u(), params))
    _same(_mix("wr_6_1", _u(), {"gamma": params["gamma1"]}), _mix("wr_6", _u(), params | {"gamma2": _zeros()}))


def test_wr_3_1_is_wr_8_2_with_one_tap():
    _same(_mix("wr_3_1", _u(), _params("wr_3_1")), _mix("wr_8_2", _u(), _params("wr_3_1", w=_normal(1))))


def test_wr_3_2_is_wr_8_2_with_two_taps():
    params = _params("wr_3_2")
    taps = torch.stack([params["gamma"], _zeros()])
    _same(_mix("wr_3_2", _u(), params), _mix("wr_8_2", _u(), _params("wr_3_2", gamma=None, w=taps)))


def test_wr_8_2_1_is_wr_8_2_2_after_n_tokens():
    params = _params("wr_8_2_1")
    after, before = _mix("wr_8_2_1", _u(), params), _mix("wr_8_2_2", _u(), params)
    _same(after[:, N:], before[:, N:])
    _differ(after[:, N - 1], before[:, N - 1])


def test_wr_8_2_2_scaled_divides_by_root_width():
    params = _params("wr_8_2_2")
    smaller = params | {name: params[name] / math.sqrt(D) for name in ("h", "b")}
    _same(_mix("wr_8_2_2", _u(), params, scaled=True), _mix("wr_8_2_2", _u(), smaller))


def test_wr_8_2_family_reduces_to_wr_8_2():
    params = _params("wr_8_2")
    plain, u = _mix("wr_8_2", _u(), params), _u()
    eye, none = torch.eye(D, dtype=torch.float64), _zeros(D)
    right = torch.cat([_zeros(D, D), eye], dim=1)  # [u; c] -> c
    _same(_mix("wr_8_2_skip", u, params | {"rho": _zeros()}), plain)
    _same(_mix("wr_8_2_gate", u, params | {"s": _zeros()}), (u + plain) / 2)
    _same(_mix("wr_8_2_gains", u, params | {"rho": _ones(), "kappa": _ones()}), u + plain)
    _same(_mix("wr_8_2_1", u, params | {"h": eye, "b": none}), plain)
    _same(_mix("wr_8_2_3", u, params | {"m": right, "b": none}), plain)
    _same(_mix("wr_8_2_4", u, params | {"m": right, "b": none, "h": eye}), plain)
    _same(_mix("wr_8_3", u, params | {"w": params["w"].expand(D, N)}), plain)
    softmaxed = params | {"kernel": torch.softmax(params["w"], dim=0), "bias": _zeros()}
    softmaxed.pop("w")
    _same(_mix("wr_8", u, softmaxed), plain)
    _same(_mix("wr_8_log", u, softmaxed), plain)


def test_wr_8_3_log_groups():
    params = _params("wr_8_3_log", w=_normal(D, 1, N))
    depthwise = params | {"w": params["w"][:, 0]}
    _same(_mix("wr_8_3_log", _u(), params, groups=D), _mix("wr_8_3", _u(), depthwise))  # g = D is depthwise

    one = _params("wr_8_3_log", gate_w=_zeros(D, D), gate_b=-1e3 * _ones(D), w=_zeros(D, D, N))  # closed gate: z = c
    c = _mix("wr_8_3_log", _u(), one, groups=1)
    _same(c, c[:, :, :1].expand_as(c))  # flat and g = 1: every channel is the same number

    two = one | {"w": _normal(D, D // 2, N)}
    weight = torch.softmax(two["w"].flatten(1), dim=1).view(D, D // 2, N).flip(-1)  # conv1d's taps run forwards
    expected = F.conv1d(F.pad(_u().transpose(1, 2), (N, 0))[:, :, :-1], weight, groups=2).transpose(1, 2)
    _same(_mix("wr_8_3_log", _u(), two, groups=2), expected)


def test_wr_9_is_masked_linear_attention():
    params, u = _params("wr_9"), _u()
    c = temporal.softmax_mean(u, params["w"])
    mixed = torch.tril(c @ u.transpose(1, 2)) @ (u @ params["w_a"].T) / D
    _same(_mix("wr_9", u, params), temporal.gated(u, mixed, params["gate_w"], params["gate_b"]))


def test_wr_7_1_with_one_tap_is_wr_7():
    params = _params("wr_7")
    z = _mix("wr_7", _u(), params)
    _same(_mix("wr_7_1", _u(), params | {"w": _normal(1)}), z)
    torch.testing.assert_close(z.square().mean(dim=-1), _ones(2, T), rtol=1e-2, atol=1e-2)


def test_wr_attend_with_equal_tokens_is_wr_mean():
    params = _params("wr_attend")
    u = _u()[:, :1].expand(2, T, D)  # equal tokens: a flat softmax
    _same(_mix("wr_attend", u, params), _mix("wr_mean", u, params))
    _same(_mix("wr_mean", u, params)[:, 0], torch.sigmoid(params["gamma"]) * u[:, 0])


def test_wr_7_2_forgets_with_open_gates():
    """With a = 0 the state is i p, so the block reaches back only by its convolution."""
    params = _params("wr_7_2", lam=50 * _ones(R), b_r=50 * _ones(R))
    u = _u()
    other = u.clone()
    other[:, 0] += 1
    left, right = _mix("wr_7_2", u, params), _mix("wr_7_2", other, params)
    _differ(left[:, 3], right[:, 3])
    _same(left[:, 4:], right[:, 4:])
