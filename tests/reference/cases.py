"""Small weights, tokens and parameters of every method, to try the reference with."""

import torch

from . import METHODS, LayerWeights, Method, Weights, logits, temporal

L, D, H, HKV, FFN, V, T, TMAX, N, R = 3, 16, 4, 2, 12, 11, 6, 8, 3, 24
HEAD, RANK = D // H, 3
EPS = 1e-5
HOSTS = ["sequential", "parallel"]
ALL = [(slot, id) for slot, ids in METHODS.items() for id in ids]


def normal(*shape, scale=0.5):
    return scale * torch.randn(shape, dtype=torch.float64)


def ones(*shape):
    return torch.ones(shape, dtype=torch.float64)


def zeros(*shape):
    return torch.zeros(shape, dtype=torch.float64)


def _weights():
    torch.manual_seed(0)
    layers = [
        LayerWeights(
            norm1=1 + normal(D, scale=0.1),
            wq=normal(D, D),
            wk=normal(HKV * HEAD, D),
            wv=normal(HKV * HEAD, D),
            wo=normal(D, D),
            norm2=1 + normal(D, scale=0.1),
            gate=normal(FFN, D),
            up=normal(FFN, D),
            down=normal(D, FFN),
        )
        for _ in range(L)
    ]
    return Weights(normal(V, D, scale=1), layers, 1 + normal(D, scale=0.1), normal(V, D), H, HKV, EPS, 100.0)


def _tokens():
    return torch.randint(V, (2, T), generator=torch.Generator().manual_seed(1))


WEIGHTS, TOKENS = _weights(), _tokens()

SCALAR, GATE = (), {"gate_w": (D, D), "gate_b": (D,)}
RGLRU = {"w_r": (D, D), "b_r": (D,), "w_i": (D, D), "b_i": (D,), "lam": SCALAR}
REC = {**GATE, "w": (N,)}
TEMPORAL_SHAPES = {
    "wr_1": {"gamma": SCALAR},
    "wr_2": {"w": (D, 2 * D), "bias": (D,)},
    "wr_3": {"gamma": SCALAR, "w": (D, 2 * D), "bias": (D,)},
    "wr_3_1": GATE,
    "wr_3_2": {**GATE, "gamma": SCALAR},
    "wr_4": {
        **{"w_r": (D, 2 * D), "b_r": (D,), "w_z": (D, 2 * D), "b_z": (D,)},
        **{"w": (D, 2 * D), "b": (D,)},
    },
    "wr_5": {"gamma1": SCALAR, "gamma2": SCALAR},
    "wr_6": {"gamma1": SCALAR, "gamma2": SCALAR},
    "wr_6_1": {"gamma": SCALAR},
    "wr_7": RGLRU,
    "wr_7_log": RGLRU,
    "wr_7_1": {**RGLRU, "w": (N,)},
    "wr_7_1_log": {**RGLRU, "w": (N,)},
    "wr_7_2": {
        **{"w_y": (R, D), "b_y": (R,), "w_x": (R, D), "b_x": (R,), "conv_w": (R, 4), "conv_b": (R,)},
        **{"w_r": (R, R), "b_r": (R,), "w_i": (R, R), "b_i": (R,), "lam": SCALAR, "w_out": (D, R), "b_out": (D,)},
    },
    "wr_8": {**GATE, "kernel": (N,), "bias": SCALAR},
    "wr_8_log": {**GATE, "kernel": (N,), "bias": SCALAR},
    "wr_8_1": {**GATE, "kernel": (N,), "bias": SCALAR},
    "wr_8_1_log": {**GATE, "kernel": (N,), "bias": SCALAR},
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
    "wr_9": {**REC, "a": (TMAX, D)},
    "wr_9_log": {**REC, "a": (TMAX, D), "b": (D,)},
    "wr_attend": {"w1": (D, D), "gamma": SCALAR},
    "wr_mean": {"w1": (D, D), "gamma": SCALAR},
    "wr_example": {**GATE, "w": (4,)},
}
TOKEN_VALUES = {**REC, "w_a": (D, D)}  # wr_9 with values="token"


def score_shapes(id, m):
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
        "wr_attatt": {"gamma": (H,)},
    }.get(id, {})


def residual_shapes(id, m, host):
    if id in ("v2_m3", "v3_m3_2", "v3_m4_2"):
        return {"w": (m,)} if m >= 2 else {}
    if id == "v2_clt":
        return {"u": (m - 1, D, RANK), "v": (m - 1, RANK, D)} if m >= 2 else {}
    if not id.startswith("skip"):
        return {}
    shape = (D,) if id == "skip_vector" else SCALAR
    names = ["skip"] if host == "parallel" else ["skip_attention", "skip_ffn"]
    names += ["attention_gain"] if id in ("skip_attention_gain", "skip_gains", "skip_gains_log") else []
    names += ["ffn_gain"] if id in ("skip_gains", "skip_gains_log") else []
    names += ["normed_gain"] if id == "skip_normed" else []
    return dict.fromkeys(names, shape)


def method_of(slot, id, host, **settings):
    """A method with random parameters."""
    torch.manual_seed(2)
    if slot == "temporal":
        shapes = [TOKEN_VALUES if settings.get("values") == "token" else TEMPORAL_SHAPES[id]] * L
        if settings.get("site") == "output":  # once, after the last layer
            shapes = [{}] * (L - 1) + shapes[-1:]
        if id == "wr_8_3_log":
            settings["groups"] = 2
    elif slot == "score":
        shapes = [score_shapes(id, m) for m in range(1, L + 1)]
    else:
        shapes = [residual_shapes(id, m, host) for m in range(1, L + 1)]
    params = [{name: normal(*shape) for name, shape in layer.items()} for layer in shapes]
    if id in ("wr_7_log", "wr_7_1_log"):  # without σ anything but a small Λ, from which they start, runs away
        params = [layer | {"lam": layer["lam"] - 4.59} for layer in params]
    return Method(id, [{name: value.requires_grad_() for name, value in layer.items()} for layer in params], settings)


def run(host="sequential", tokens=TOKENS, **slots):
    return logits(tokens, WEIGHTS, host=host, **slots)


def same(left, right):
    torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


def differ(left, right):
    assert (left - right).abs().max() > 1e-6


def some_u():
    torch.manual_seed(3)
    return normal(2, T, D, scale=1)


def mixed(id, u, params, **settings):
    return temporal.mix(id, u, params, settings, eps=EPS)


def params_of(id, **changes):
    """Random parameters of one layer; what `changes` names is replaced, None drops it."""
    torch.manual_seed(4)
    params = {name: normal(*shape) for name, shape in TEMPORAL_SHAPES[id].items()} | changes
    return {name: value for name, value in params.items() if value is not None}
