"""Temporal-mixing methods: z from u, both (B, T, D); catalogue section T.

Each formula takes its learned tensors and its settings by keyword, so a wrong name is a TypeError.
"""

import math

import torch
from torch import Tensor

from .blocks import rms_norm

IDS = [
    "wr_1",
    "wr_2",
    "wr_3",
    "wr_3_1",
    "wr_3_2",
    "wr_4",
    "wr_5",
    "wr_6",
    "wr_6_1",
    "wr_7",
    "wr_7_log",
    "wr_7_1",
    "wr_7_1_log",
    "wr_7_2",
    "wr_8",
    "wr_8_log",
    "wr_8_1",
    "wr_8_1_log",
    "wr_8_2",
    "wr_8_2_skip",
    "wr_8_2_gate",
    "wr_8_2_gains",
    "wr_8_2_1",
    "wr_8_2_2",
    "wr_8_2_3",
    "wr_8_2_4",
    "wr_8_3",
    "wr_8_3_log",
    "wr_9",
    "wr_9_log",
    "wr_attend",
    "wr_mean",
    "wr_example",
]
SITES = ["ffn", "attention_input", "attention", "output"]
NEEDS_EPS = ["wr_7", "wr_7_log", "wr_7_1", "wr_7_1_log"]


def mix(id: str, u: Tensor, params: dict[str, Tensor], settings: dict, *, eps: float) -> Tensor:
    """z of the method `id`; settings["site"] is the host's business and is ignored here."""
    if id not in IDS:
        raise ValueError(f"unknown temporal method {id!r}")
    options = {name: value for name, value in settings.items() if name != "site"}
    if id in NEEDS_EPS:
        options["eps"] = eps
    return globals()[id](u, **params, **options)


def back(u: Tensor, k: int) -> Tensor:
    """u_{t-k}, zero before the start."""
    rows = [u[:, t - k] if t >= k else torch.zeros_like(u[:, 0]) for t in range(u.shape[1])]
    return torch.stack(rows, dim=1)


def taps(u: Tensor, weight: Tensor) -> Tensor:
    """Σ_{k=1..n} weight[k-1] u_{t-k}; weight is (n,) or, per channel, (n, D)."""
    out = torch.zeros_like(u)
    for k in range(1, len(weight) + 1):
        out = out + weight[k - 1] * back(u, k)
    return out


def softmax_mean(u: Tensor, w: Tensor) -> Tensor:
    """wr_8_2's c."""
    return taps(u, torch.softmax(w, dim=0))


def gated(u: Tensor, c: Tensor, gate_w: Tensor, gate_b: Tensor) -> Tensor:
    """G u + (1 - G) c, G = σ(W_s u + b_s)."""
    gate = torch.sigmoid(u @ gate_w.T + gate_b)
    return gate * u + (1 - gate) * c


def pair(first: Tensor, second: Tensor) -> Tensor:
    """[first; second]."""
    return torch.cat([first, second], dim=-1)


def wr_1(u, *, gamma):
    g = torch.sigmoid(gamma)
    return g * u + (1 - g) * back(u, 1)


def wr_2(u, *, w, bias):
    return pair(u, back(u, 1)) @ w.T + bias


def wr_3(u, *, gamma, w, bias):
    g = torch.sigmoid(gamma)
    return g * u + (1 - g) * (pair(u, back(u, 1)) @ w.T + bias)


def wr_3_1(u, *, gate_w, gate_b):
    return gated(u, back(u, 1), gate_w, gate_b)


def wr_3_2(u, *, gate_w, gate_b, gamma):
    q = torch.sigmoid(gamma)
    return gated(u, q * back(u, 1) + (1 - q) * back(u, 2), gate_w, gate_b)


def wr_4(u, *, w_r, b_r, w_z, b_z, w, b):
    previous = back(u, 1)
    r = torch.sigmoid(pair(u, previous) @ w_r.T + b_r)
    z = torch.sigmoid(pair(u, previous) @ w_z.T + b_z)
    candidate = pair(r * previous, u) @ w.T + b
    return (1 - z) * previous + z * candidate * torch.sigmoid(candidate)


def wr_5(u, *, gamma1, gamma2):
    g1, g2 = torch.sigmoid(gamma1), torch.sigmoid(gamma2)
    return g1 * u + (1 - g1) * g2 * back(u, 1) + (1 - g1) * (1 - g2) * back(u, 2)


def wr_6(u, *, gamma1, gamma2):
    g1, g2 = torch.sigmoid(gamma1), torch.sigmoid(gamma2)
    return g1 * u + (1 - g1) * (g2 * back(u, 1) + (1 - g2) * back(u, 2))


def wr_6_1(u, *, gamma):
    g = torch.sigmoid(gamma)
    return g * u + (1 - g) * (back(u, 1) + back(u, 2)) / 2


def softplus(x):
    return torch.log1p(torch.exp(x))


def wr_7(u, *, w_r, b_r, w_i, b_i, lam, eps):
    return rms_norm(rglru_step(u, back(u, 1), w_r, b_r, w_i, b_i, lam), eps)


def wr_7_1(u, *, w_r, b_r, w_i, b_i, lam, w, eps, norm=True):
    z = rglru_step(u, softmax_mean(u, w), w_r, b_r, w_i, b_i, lam)
    return rms_norm(z, eps) if norm else z


def rglru_step(u, previous, w_r, b_r, w_i, b_i, lam):
    """a previous + √(1 - a²) i u."""
    r = torch.sigmoid(u @ w_r.T + b_r)
    i = torch.sigmoid(u @ w_i.T + b_i)
    a = torch.exp(-8 * softplus(lam) * r)
    return a * previous + torch.sqrt(1 - a**2) * i * u


def wr_7_log(u, *, w_r, b_r, w_i, b_i, lam, eps, norm=False):
    z = rglru_step_log(u, back(u, 1), w_r, b_r, w_i, b_i, lam)
    return rms_norm(z, eps) if norm else z


def wr_7_1_log(u, *, w_r, b_r, w_i, b_i, lam, w, eps, norm=True):
    z = rglru_step_log(u, softmax_mean(u, w), w_r, b_r, w_i, b_i, lam)
    return rms_norm(z, eps) if norm else z


def rglru_step_log(u, previous, w_r, b_r, w_i, b_i, lam):
    """a previous + (1 - a²) i u, with r and i that no sigmoid bounds."""
    r = u @ w_r.T + b_r
    i = u @ w_i.T + b_i
    a = torch.exp(-8 * softplus(lam) * r)
    return a * previous + (1 - a**2) * i * u


def wr_7_2(u, *, w_y, b_y, w_x, b_x, conv_w, conv_b, w_r, b_r, w_i, b_i, lam, w_out, b_out, skip=False):
    y = u @ w_y.T + b_y
    branch_one = 0.5 * y * (1 + torch.erf(y / math.sqrt(2)))
    rows = u @ w_x.T + b_x
    v = conv_b + torch.zeros_like(rows)
    for k in range(4):
        v = v + conv_w[:, k] * back(rows, k)
    branch_two = rglru_step(v, back(v, 1), w_r, b_r, w_i, b_i, lam)
    out = (branch_one * branch_two) @ w_out.T + b_out
    return u + out if skip else out


def wr_8(u, *, gate_w, gate_b, kernel, bias):
    return gated(u, taps(u, kernel) + bias, gate_w, gate_b)


def wr_8_log(u, *, gate_w, gate_b, kernel, bias):
    return wr_8(u, gate_w=gate_w, gate_b=gate_b, kernel=kernel, bias=bias)  # kernel, bias: this pass's random draw


def wr_8_1(u, *, gate_w, gate_b, kernel, bias):
    return gated(u, torch.sigmoid(taps(u, kernel) + bias), gate_w, gate_b)


def wr_8_1_log(u, *, gate_w, gate_b, kernel, bias):
    return wr_8_1(u, gate_w=gate_w, gate_b=gate_b, kernel=kernel, bias=bias)  # kernel, bias: this pass's random draw


def wr_8_2(u, *, gate_w, gate_b, w):
    return gated(u, softmax_mean(u, w), gate_w, gate_b)


def wr_8_2_skip(u, *, gate_w, gate_b, w, rho=None, start=0.0, fixed=False):
    if fixed == (rho is not None):
        raise ValueError("wr_8_2_skip: ρ is either learned or fixed at `start`")
    return (start if fixed else rho) * u + wr_8_2(u, gate_w=gate_w, gate_b=gate_b, w=w)


def wr_8_2_gate(u, *, gate_w, gate_b, w, s):
    share = torch.sigmoid(s)
    return share * u + (1 - share) * wr_8_2(u, gate_w=gate_w, gate_b=gate_b, w=w)


def wr_8_2_gains(u, *, gate_w, gate_b, w, rho, kappa):
    return rho * u + kappa * wr_8_2(u, gate_w=gate_w, gate_b=gate_b, w=w)


def wr_8_2_1(u, *, gate_w, gate_b, w, h, b):
    return gated(u, softmax_mean(u, w) @ h.T + b, gate_w, gate_b)


def wr_8_2_2(u, *, gate_w, gate_b, w, h, b, scaled=False):
    v = u @ h.T + b
    if scaled:
        v = v / math.sqrt(u.shape[-1])
    return gated(u, softmax_mean(v, w), gate_w, gate_b)


def wr_8_2_3(u, *, gate_w, gate_b, w, m, b):
    return gated(u, pair(u, softmax_mean(u, w)) @ m.T + b, gate_w, gate_b)


def wr_8_2_4(u, *, gate_w, gate_b, w, m, b, h):
    return gated(u, pair(u, softmax_mean(u, w) @ h.T) @ m.T + b, gate_w, gate_b)


def wr_8_3(u, *, gate_w, gate_b, w):
    return gated(u, taps(u, torch.softmax(w, dim=1).T), gate_w, gate_b)


def wr_8_3_log(u, *, gate_w, gate_b, w, groups):
    width, size, n = w.shape  # D, D/g, n
    if size * groups != width:
        raise ValueError(f"wr_8_3_log: {groups} groups do not fit w {tuple(w.shape)}")
    columns = []
    for o in range(width):
        share = torch.softmax(w[o].reshape(-1), dim=0).reshape(size, n)
        first = o // size * size  # the first channel of o's group
        column = torch.zeros_like(u[:, :, 0])
        for j in range(size):
            for k in range(1, n + 1):
                column = column + share[j, k - 1] * back(u, k)[:, :, first + j]
        columns.append(column)
    return gated(u, torch.stack(columns, dim=-1), gate_w, gate_b)


def wr_9(u, *, gate_w, gate_b, w, a=None, w_a=None, values="position"):
    if values not in ("position", "token"):
        raise ValueError(f"wr_9: values={values!r}")
    c = softmax_mean(u, w)
    rows = []
    for t in range(u.shape[1]):
        row = torch.zeros_like(u[:, 0])
        for s in range(t + 1):
            value = u[:, s] @ w_a.T if values == "token" else a[s]
            row = row + (c[:, t] * u[:, s]).sum(dim=-1, keepdim=True) * value
        rows.append(row / u.shape[-1])
    return gated(u, torch.stack(rows, dim=1), gate_w, gate_b)


def wr_9_log(u, *, gate_w, gate_b, w, a, b, scaled=False):
    root = math.sqrt(u.shape[-1]) if scaled else 1
    inter = (u.transpose(1, 2) @ a[: u.shape[1]] + b) / root  # over the whole sequence: not causal, as coded
    return gated(u, softmax_mean(u, w) @ inter / root, gate_w, gate_b)


def wr_attend(u, *, w1, gamma):
    rows = [torch.zeros_like(u[:, 0])]
    for t in range(1, u.shape[1]):
        earlier = u[:, :t]  # (B, t, D)
        match = (earlier * u[:, t : t + 1]).sum(dim=-1) / math.sqrt(u.shape[-1])
        rows.append((torch.softmax(match, dim=1)[:, :, None] * earlier).sum(dim=1))
    g = torch.sigmoid(gamma)
    return g * u + (1 - g) * (torch.stack(rows, dim=1) @ w1.T)


def wr_mean(u, *, w1, gamma):
    rows = [torch.zeros_like(u[:, 0])]
    for t in range(1, u.shape[1]):
        rows.append(u[:, :t].sum(dim=1) / t)
    g = torch.sigmoid(gamma)
    return g * u + (1 - g) * (torch.stack(rows, dim=1) @ w1.T)


def wr_example(u, *, gate_w, gate_b, w):
    if len(w) != 4:
        raise ValueError(f"wr_example: 4 taps expected, w is {tuple(w.shape)}")
    return wr_8_2(u, gate_w=gate_w, gate_b=gate_b, w=w)
