"""The reference's temporal methods against the catalogue's identities."""

import math

import torch
import torch.nn.functional as F

from . import temporal
from .blocks import rms_norm
from .cases import (
    EPS,
    D,
    N,
    R,
    T,
    differ,
    mixed,
    normal,
    ones,
    params_of,
    same,
    some_u,
    zeros,
)


def test_wr_5_is_wr_6():
    params = params_of("wr_5")
    same(mixed("wr_5", some_u(), params), mixed("wr_6", some_u(), params))
    same(mixed("wr_6_1", some_u(), {"gamma": params["gamma1"]}), mixed("wr_6", some_u(), params | {"gamma2": zeros()}))


def test_wr_3_1_is_wr_8_2_with_one_tap():
    same(mixed("wr_3_1", some_u(), params_of("wr_3_1")), mixed("wr_8_2", some_u(), params_of("wr_3_1", w=normal(1))))


def test_wr_3_2_is_wr_8_2_with_two_taps():
    params = params_of("wr_3_2")
    taps = torch.stack([params["gamma"], zeros()])
    same(mixed("wr_3_2", some_u(), params), mixed("wr_8_2", some_u(), params_of("wr_3_2", gamma=None, w=taps)))


def test_wr_8_2_1_is_wr_8_2_2_after_n_tokens():
    params = params_of("wr_8_2_1")
    after, before = mixed("wr_8_2_1", some_u(), params), mixed("wr_8_2_2", some_u(), params)
    same(after[:, N:], before[:, N:])
    differ(after[:, N - 1], before[:, N - 1])


def test_wr_8_2_2_scaled_divides_by_root_width():
    params = params_of("wr_8_2_2")
    smaller = params | {name: params[name] / math.sqrt(D) for name in ("h", "b")}
    same(mixed("wr_8_2_2", some_u(), params, scaled=True), mixed("wr_8_2_2", some_u(), smaller))


def test_wr_8_2_family_reduces_to_wr_8_2():
    params = params_of("wr_8_2")
    plain, u = mixed("wr_8_2", some_u(), params), some_u()
    eye, none = torch.eye(D, dtype=torch.float64), zeros(D)
    right = torch.cat([zeros(D, D), eye], dim=1)  # [u; c] -> c
    same(mixed("wr_8_2_skip", u, params | {"rho": zeros()}), plain)
    same(mixed("wr_8_2_gate", u, params | {"s": zeros()}), (u + plain) / 2)
    same(mixed("wr_8_2_gains", u, params | {"rho": ones(), "kappa": ones()}), u + plain)
    same(mixed("wr_8_2_1", u, params | {"h": eye, "b": none}), plain)
    same(mixed("wr_8_2_3", u, params | {"m": right, "b": none}), plain)
    same(mixed("wr_8_2_4", u, params | {"m": right, "b": none, "h": eye}), plain)
    same(mixed("wr_8_3", u, params | {"w": params["w"].expand(D, N)}), plain)
    softmaxed = params | {"kernel": torch.softmax(params["w"], dim=0), "bias": zeros()}
    softmaxed.pop("w")
    same(mixed("wr_8", u, softmaxed), plain)
    same(mixed("wr_8_log", u, softmaxed), plain)


def test_wr_8_3_log_groups():
    params = params_of("wr_8_3_log", w=normal(D, 1, N))
    depthwise = params | {"w": params["w"][:, 0]}
    same(mixed("wr_8_3_log", some_u(), params, groups=D), mixed("wr_8_3", some_u(), depthwise))  # g = D is depthwise

    one = params_of("wr_8_3_log", gate_w=zeros(D, D), gate_b=-1e3 * ones(D), w=zeros(D, D, N))  # closed gate: z = c
    c = mixed("wr_8_3_log", some_u(), one, groups=1)
    same(c, c[:, :, :1].expand_as(c))  # flat and g = 1: every channel is the same number

    two = one | {"w": normal(D, D // 2, N)}
    weight = torch.softmax(two["w"].flatten(1), dim=1).view(D, D // 2, N).flip(-1)  # conv1d's taps run forwards
    expected = F.conv1d(F.pad(some_u().transpose(1, 2), (N, 0))[:, :, :-1], weight, groups=2).transpose(1, 2)
    same(mixed("wr_8_3_log", some_u(), two, groups=2), expected)


def test_wr_9_is_masked_linear_attention():
    u, params = some_u(), params_of("wr_9")
    c = temporal.softmax_mean(u, params["w"])
    gate = (params["gate_w"], params["gate_b"])
    affinity = torch.tril(c @ u.transpose(1, 2)) / D
    same(mixed("wr_9", u, params), temporal.gated(u, affinity @ params["a"][:T], *gate))

    params["w_a"] = normal(D, D)
    del params["a"]
    same(mixed("wr_9", u, params, values="token"), temporal.gated(u, affinity @ (u @ params["w_a"].T), *gate))


def test_wr_9_log_is_wr_9_that_sees_the_whole_sequence():
    """The last token has nothing after it: there the two agree, but for the bias and the scale."""
    u, params = some_u()[:, :T], params_of("wr_9_log", b=zeros(D))
    causal = mixed("wr_9", u, {name: value for name, value in params.items() if name != "b"})
    same(mixed("wr_9_log", u, params, scaled=True)[:, -1], causal[:, -1])
    differ(mixed("wr_9_log", u, params, scaled=True)[:, 1], causal[:, 1])

    c = temporal.softmax_mean(u, params["w"])
    biased = params | {"b": normal(D), "gate_w": zeros(D, D), "gate_b": -1e3 * ones(D)}  # closed gate: z = c'
    bare = biased | {"b": zeros(D)}
    more = c.sum(dim=-1, keepdim=True) * biased["b"]
    same(mixed("wr_9_log", u, biased) - mixed("wr_9_log", u, bare), more)
    same(mixed("wr_9_log", u, biased, scaled=True), mixed("wr_9_log", u, biased) / D)


def test_wr_7_1_with_one_tap_is_wr_7():
    params = params_of("wr_7")
    z = mixed("wr_7", some_u(), params)
    same(mixed("wr_7_1", some_u(), params | {"w": normal(1)}), z)
    torch.testing.assert_close(z.square().mean(dim=-1), ones(2, T), rtol=1e-2, atol=1e-2)
    bare = mixed("wr_7_1", some_u(), params | {"w": normal(1)}, norm=False)
    same(rms_norm(bare, EPS), z)


def test_wr_7_1_log_with_one_tap_is_wr_7_log():
    params = params_of("wr_7_log")
    for norm in (False, True):
        one_tap = mixed("wr_7_1_log", some_u(), params | {"w": normal(1)}, norm=norm)
        same(one_tap, mixed("wr_7_log", some_u(), params, norm=norm))


def test_wr_example_is_wr_8_2_with_four_taps():
    params = params_of("wr_example")
    same(mixed("wr_example", some_u(), params), mixed("wr_8_2", some_u(), params))


def test_wr_attend_with_equal_tokens_is_wr_mean():
    params = params_of("wr_attend")
    u = some_u()[:, :1].expand(2, T, D)  # equal tokens: a flat softmax
    same(mixed("wr_attend", u, params), mixed("wr_mean", u, params))
    same(mixed("wr_mean", u, params)[:, 0], torch.sigmoid(params["gamma"]) * u[:, 0])


def test_wr_7_2_reaches_back_four_rows_and_no_further():
    """No recurrence: the convolution reads 3 earlier rows, the gating one more."""
    params = params_of("wr_7_2")
    u = some_u()
    other = u.clone()
    other[:, 0] += 1
    left, right = mixed("wr_7_2", u, params), mixed("wr_7_2", other, params)
    differ(left[:, 4], right[:, 4])
    same(left[:, 5:], right[:, 5:])
    same(mixed("wr_7_2", u, params, skip=True), u + left)


def test_wr_7_2_forgets_the_previous_row_with_open_gates():
    """With a = 0 the branch is i v, so the block reaches back only by its convolution."""
    params = params_of("wr_7_2", lam=50 * ones(), b_r=50 * ones(R))
    u = some_u()
    other = u.clone()
    other[:, 0] += 1
    left, right = mixed("wr_7_2", u, params), mixed("wr_7_2", other, params)
    differ(left[:, 3], right[:, 3])
    same(left[:, 4:], right[:, 4:])


def test_wr_4_with_an_open_update_gate_is_its_candidate():
    params = params_of("wr_4", b_z=1e3 * ones(D), b_r=-1e3 * ones(D))  # Z = 1, R = 0
    inner = some_u() @ params["w"][:, D:].T + params["b"]
    same(mixed("wr_4", some_u(), params), F.silu(inner))
