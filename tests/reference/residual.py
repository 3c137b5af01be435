"""Residual methods: what y_m (attention site) and x_{m+1} (FFN site) are; catalogue section R."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .blocks import Method, layer_params

V1 = ["v1_m1", "v1_m2", "v1_m3", "v1_m4", "v1_m5", "v1_m6", "v1_m7"]
V2 = ["v2_m1", "v2_m2", "v2_m3", "v2_clt"]
V3 = ["v3_m1", "v3_m2", "v3_m3_1", "v3_m3_2", "v3_m4_1", "v3_m4_2", "v3_values"]
SKIP = [
    "skip_scalar",
    "skip_scalar_2",
    "skip_scalar_0",
    "skip_scalar_half",
    "skip_depth",
    "skip_vector",
    "skip_attention_gain",
    "skip_gains",
    "skip_gains_log",
    "skip_normed",
]
IDS = [*V1, *V2, *V3, *SKIP]


class Site(NamedTuple):
    """All that a residual formula of layer m may read."""

    m: int  # the layer, from 1
    host: str
    embedding: Tensor  # x_1
    x: Tensor  # x_m
    normed: Tensor  # N1_m(x_m)
    a: list[Tensor]  # a_1 .. a_m
    f: list[Tensor]  # f_1 .. f_m at the FFN site, f_1 .. f_{m-1} at the attention site
    rerun_attention: Callable[[int, Tensor], Tensor]  # M_i(X), i from 1
    rerun_block: Callable[[int, Tensor], Tensor]  # R_i(X)


def attention_site(method: Method | None, site: Site) -> Tensor:
    """y_m."""
    if method is None:
        return site.x + site.a[-1]
    check(method, site)
    if method.id in V1:
        return v1_attention(method, site)
    if method.id in V2:
        return v2_attention(method, site)
    if method.id in V3:
        return v3_attention(method, site)
    return skip_attention(method, site)


def ffn_site(method: Method | None, site: Site, y: Tensor) -> Tensor:
    """x_{m+1}; `y` is the result of the attention site."""
    if method is None:
        return y + site.f[-1]
    check(method, site)
    if method.id in V1:
        return v1_ffn(method, site, y)
    if method.id in V2:
        return v2_ffn(method, site, y)
    if method.id in V3:
        return v3_ffn(method, site, y)
    return skip_ffn(method, site, y)


def check(method: Method, site: Site) -> None:
    """Refuse names that no formula would read: a misspelt one must not pass as a default."""
    if method.id not in IDS:
        raise ValueError(f"unknown residual method {method.id!r}")
    settings = {"first"} if method.id in V1 else {"keep_skip"} if method.id in V3 else set()
    names = set()
    if method.id in ("v2_m3", "v3_m3_2", "v3_m4_2") and site.m >= 2:
        names = {"w"}
    if method.id == "v2_clt" and site.m >= 2:
        names = {"d"} if "d" in layer_params(method, site.m) else {"u", "v"}
    if method.id in SKIP:
        names = {"skip"} if site.host == "parallel" else {"skip_attention", "skip_ffn"}
        names |= {"attention_gain", "ffn_gain", "normed_gain"}
    if unknown := set(method.settings) - settings:
        raise ValueError(f"{method.id}: unknown settings {sorted(unknown)}")
    if unknown := set(layer_params(method, site.m)) - names:
        raise ValueError(f"{method.id}: unknown parameters {sorted(unknown)} in layer {site.m}")


# Version 1


def earlier_sum(method: Method, site: Site, outputs: list[Tensor], *, divided: bool = False) -> Tensor:
    """Σ_{i<m} outputs_i, with the embedding as source 0 under first="embedding"; 0 when empty."""
    terms = [outputs[i - 1] for i in range(1, site.m)]
    if method.settings.get("first", "standard") == "embedding":
        terms = [site.embedding, *terms]
    total = torch.zeros_like(site.x)
    for term in terms:
        total = total + term
    return total / len(terms) if divided and terms else total


def v1_is_ordinary(method: Method, site: Site) -> bool:
    first = method.settings.get("first", "standard")
    if first not in ("standard", "embedding", "zero"):
        raise ValueError(f"{method.id}: first={first!r}")
    return site.m == 1 and first == "standard"


def v1_attention(method: Method, site: Site) -> Tensor:
    a_m = site.a[site.m - 1]
    if v1_is_ordinary(method, site) or method.id in ("v1_m3", "v1_m4"):
        return site.x + a_m
    if method.id == "v1_m2":
        return a_m + earlier_sum(method, site, site.a, divided=True)
    if method.id == "v1_m6":
        return a_m + earlier_sum(method, site, site.f)
    return a_m + earlier_sum(method, site, site.a)  # m1, m5, m7


def v1_ffn(method: Method, site: Site, y: Tensor) -> Tensor:
    f_m = site.f[site.m - 1]
    if v1_is_ordinary(method, site) or method.id in ("v1_m1", "v1_m2"):
        return y + f_m
    if method.id == "v1_m4":
        return f_m + earlier_sum(method, site, site.f, divided=True)
    if method.id == "v1_m5":
        return f_m + earlier_sum(method, site, site.a)
    return f_m + earlier_sum(method, site, site.f)  # m3, m6, m7


# Version 2


def mean(terms: list[Tensor]) -> Tensor:
    return sum(terms[1:], terms[0]) / len(terms)


def softmax_mean(w: Tensor, terms: list[Tensor]) -> Tensor:
    """Σ_i softmax(w)_i terms_i."""
    if w.shape != (len(terms),):
        raise ValueError(f"{len(terms)} terms, but w has the shape {tuple(w.shape)}")
    share = torch.softmax(w, dim=0)
    total = torch.zeros_like(terms[0])
    for i, term in enumerate(terms):
        total = total + share[i] * term
    return total


def v2_attention(method: Method, site: Site) -> Tensor:
    if method.id == "v2_m2":
        return site.x + mean(site.a)
    return site.x + site.a[-1]


def v2_ffn(method: Method, site: Site, y: Tensor) -> Tensor:
    if method.id == "v2_m1":
        return y + mean(site.f)
    if method.id == "v2_m3" and site.m >= 2:
        return y + softmax_mean(layer_params(method, site.m)["w"], site.f)
    if method.id == "v2_clt" and site.m >= 2:
        return y + site.f[-1] + decoded(layer_params(method, site.m), site.f[:-1])
    return y + site.f[-1]


def decoded(params: dict[str, Tensor], outputs: list[Tensor]) -> Tensor:
    """Σ_{i<m} f_i D_im, D_im a matrix of its own ("d") or U_im V_im ("u", "v")."""
    total = torch.zeros_like(outputs[0])
    for i, output in enumerate(outputs):
        decoder = params["d"][i] if "d" in params else params["u"][i] @ params["v"][i]
        total = total + output @ decoder
    return total


# Version 3


def v3_attention(method: Method, site: Site) -> Tensor:
    a_m = site.a[-1]
    if site.m == 1 or method.id in ("v3_m1", "v3_m3_1", "v3_m3_2"):
        return site.x + a_m
    terms = [site.rerun_attention(i, site.x) for i in range(1, site.m)] + [a_m]
    if method.id == "v3_values":
        return site.x + sum(terms[1:], terms[0])  # has its skip: keep_skip changes nothing
    if method.id == "v3_m2":
        y = sum(terms[1:], terms[0])
    elif method.id == "v3_m4_1":
        y = mean(terms)
    else:
        y = softmax_mean(layer_params(method, site.m)["w"], terms)
    return site.x + y if method.settings.get("keep_skip", False) else y


def v3_ffn(method: Method, site: Site, y: Tensor) -> Tensor:
    f_m = site.f[-1]
    if site.m == 1 or method.id in ("v3_m2", "v3_m4_1", "v3_m4_2", "v3_values"):
        return y + f_m
    terms = [site.rerun_block(i, site.x) for i in range(1, site.m)] + [f_m]
    if method.id == "v3_m1":
        out = sum(terms[1:], terms[0])
    elif method.id == "v3_m3_1":
        out = mean(terms)
    else:
        out = softmax_mean(layer_params(method, site.m)["w"], terms)
    return y + out if method.settings.get("keep_skip", False) else out


# Skip weights


def skip_attention(method: Method, site: Site) -> Tensor:
    params = layer_params(method, site.m)
    skip = params["skip"] if site.host == "parallel" else params["skip_attention"]
    y = skip * site.x + params.get("attention_gain", 1) * site.a[-1]
    if "normed_gain" in params:
        y = y + params["normed_gain"] * site.normed
    return y


def skip_ffn(method: Method, site: Site, y: Tensor) -> Tensor:
    params = layer_params(method, site.m)
    skip = 1 if site.host == "parallel" else params["skip_ffn"]  # parallel: the one λ is in y already
    return skip * y + params.get("ffn_gain", 1) * site.f[-1]
