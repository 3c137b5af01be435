"""Score-mixing methods: layer m's unmasked scores S_m from P_1 .. P_m; catalogue section S."""

import math

import torch
from torch import Tensor

from .blocks import Method, layer_params, rms_norm

IDS = [
    "v4_m1",
    "v4_m2",
    "v4_m3",
    "v4_m4",
    "v4_m5",
    "v4_m6",
    "v4_m7",
    "v4_m1a",
    "v4_m1b",
    "v4_m1c",
    "v4_m1d",
    "v4_m1e",
    "v4_mc",
    "v4_md",
    "wr_attatt",
]


def scores(method: Method | None, m: int, products: list[Tensor], x: Tensor, d: int, eps: float) -> Tensor:
    """S_m (B, H, T, T) of P_1 .. P_m (each (B, H, T, T)), x_m (B, T, D) and the head width d."""
    if method is None:
        return products[-1] / math.sqrt(d)
    if method.id not in IDS:
        raise ValueError(f"unknown score method {method.id!r}")
    if method.settings:
        raise ValueError(f"{method.id}: unknown settings {sorted(method.settings)}")
    formula = globals()[method.id]
    return formula(m, products, x, d, eps, **layer_params(method, m))  # a wrong parameter name is a TypeError


def second_order(method: Method | None, m: int) -> Tensor | None:
    """The share g of A² in each head of layer m, of the method that has one."""
    return torch.sigmoid(layer_params(method, m)["gamma"]) if method and method.id == "wr_attatt" else None


def total(terms: list[Tensor]) -> Tensor:
    return sum(terms[1:], terms[0])


def v4_m1(m, products, x, d, eps):
    return total(products) / math.sqrt(d)


def v4_m2(m, products, x, d, eps):
    return total(products) / math.sqrt(d * m)


def v4_m3(m, products, x, d, eps):
    return total(products) / (m * math.sqrt(d))


def v4_m4(m, products, x, d, eps, *, a, b):
    return total(products) / (d**a * m**b)


def v4_m5(m, products, x, d, eps, *, log_a):
    return total([products[i] / (torch.exp(log_a[i]) * math.sqrt(d)) for i in range(m)])


def v4_m6(m, products, x, d, eps, *, log_a, b):
    return total([products[i] / (torch.exp(log_a[i]) * d ** b[i]) for i in range(m)])


def v4_m7(m, products, x, d, eps, *, log_a):
    return total([products[i] / torch.exp(log_a[i]) for i in range(m)])


def v4_m1a(m, products, x, d, eps, *, w):
    length = x.shape[1]
    return total([w[i, :length, :length] * products[i] for i in range(m)]) / math.sqrt(d)


def v4_m1b(m, products, x, d, eps, *, w):
    length = x.shape[1]
    return total([products[i] @ torch.diag(w[i, :length]) for i in range(m)]) / math.sqrt(d)


def v4_m1c(m, products, x, d, eps, *, w):
    length = x.shape[1]
    return total([torch.diag(w[i, :length]) @ products[i] for i in range(m)]) / math.sqrt(d)


def token_weights(x: Tensor, eps: float, w1: Tensor, w2: Tensor, b: Tensor) -> Tensor:
    """A_m = GELU(RMSNorm(X_m) W1) W2 + b: (B, T, m)."""
    hidden = rms_norm(x, eps) @ w1
    gelu = 0.5 * hidden * (1 + torch.erf(hidden / math.sqrt(2)))
    return gelu @ w2 + b


def v4_m1d(m, products, x, d, eps, *, w1, w2, b):
    weight = token_weights(x, eps, w1, w2, b)
    return total([weight[:, None, :, None, i] * products[i] for i in range(m)]) / math.sqrt(d)  # per query token


def v4_m1e(m, products, x, d, eps, *, w1, w2, b):
    weight = token_weights(x, eps, w1, w2, b)
    return total([weight[:, None, None, :, i] * products[i] for i in range(m)]) / math.sqrt(d)  # per key token


def v4_mc(m, products, x, d, eps, *, w):
    return torch.diag(w[: x.shape[1]]) @ products[-1] / math.sqrt(d)


def v4_md(m, products, x, d, eps, *, w1, w2, b):
    return token_weights(x, eps, w1, w2, b)[:, None, :, None, 0] * products[-1] / math.sqrt(d)


def wr_attatt(m, products, x, d, eps, *, gamma):
    return products[-1] / math.sqrt(d)  # the pattern is the plain one; the host applies it a second time
