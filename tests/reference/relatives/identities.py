"""What the catalogue says is equal, of residual relatives: each gives both sides' logits."""

from collections.abc import Callable

import torch
from torch import Tensor

import reference

from . import REFERENCES
from .cases import Setup, baseline, random_params, run, start_params
from .host import Params

Sides = tuple[Tensor, Tensor]
IDENTITIES: dict[str, Callable[[Setup], Sides]] = {}


def identity(function: Callable[[Setup], Sides]) -> Callable[[Setup], Sides]:
    IDENTITIES[function.__name__] = function
    return function


def host_of(given: Setup) -> str:
    return "parallel" if given.layers[0].parallel else "sequential"


def made(id: str, given: Setup, change: Callable[[int, dict], dict] | None = None, **settings: object) -> Tensor:
    """Logits of a reference with random parameters; `change(m, own)` says which of layer m's are others."""
    model = REFERENCES[id].build(**settings)
    params = random_params(model, given.layers)
    if change:
        params = [own | change(m, own) for m, own in enumerate(params, start=1)]
    return run(model, given, params)


def ready(id: str, given: Setup, params: Params, **settings: object) -> Tensor:
    return run(REFERENCES[id].build(**settings), given, params)


def random_of(id: str, given: Setup, **settings: object) -> Params:
    return random_params(REFERENCES[id].build(**settings), given.layers)


def older(given: Setup, **slots: object) -> Tensor:
    """The references of the lab notes' methods."""
    return reference.logits(given.tokens, given.weights, host=host_of(given), **slots)


@identity
def two_hop_is_v1_m3_from_the_embedding(given):
    method = reference.Method("v1_m3", [], {"first": "embedding"})
    return made("two_hop", given), older(given, residual=method)


@identity
def laurel_rw_is_skip_gains_with_bounded_weights(given):
    params, gains = random_of("laurel_rw", given), []
    for own in params:
        alpha_a, beta_a = 2 * torch.softmax(own["w_attention"], dim=0)
        alpha_f, beta_f = 2 * torch.softmax(own["w_ffn"], dim=0)
        skips = {"skip": beta_a} if given.layers[0].parallel else {"skip_attention": beta_a, "skip_ffn": beta_f}
        gains.append(skips | {"attention_gain": alpha_a, "ffn_gain": alpha_f})
    return ready("laurel_rw", given, params), older(given, residual=reference.Method("skip_gains", gains))


@identity
def laurel_pa_of_one_source_is_laurel_lr(given):
    params = random_of("laurel_lr", given, rank=2)
    one = torch.ones(1, dtype=torch.float64)
    longer = [own | {"gamma_attention": one, "gamma_ffn": one} for own in params]
    return ready("laurel_pa", given, longer, rank=2, kappa=1), ready("laurel_lr", given, params, rank=2)


@identity
def laurel_pa_of_earlier_inputs_is_denseformer(given):
    """x_{m+1} = Block(x_m) + Σ_j γ_j x_{m−j}, with every x written as a sum of block outputs."""
    settings = {"low_rank_map": False, "kappa": 3}
    params = random_of("laurel_pa", given, **settings)
    sums = [torch.ones(1, dtype=torch.float64)]  # x_1, x_2 … over X_0, X_1 …
    for m, own in enumerate(params, start=1):
        if not given.layers[0].parallel:  # else a site would see what the block has only begun
            own["gamma_attention"], own["gamma_ffn"] = own["gamma_attention"] * 0, own["gamma_ffn"].clone()
            own["gamma_ffn"][0] = 0
        gamma = own["gamma_attention"] + own["gamma_ffn"]
        total = torch.zeros(m + 1, dtype=torch.float64)
        total[m] = 1
        for j in range(min(3, m)):
            source = sums[m - 1 - j]
            total[: len(source)] += gamma[j] * source
        sums.append(total)
    return ready("laurel_pa", given, params, **settings), ready("denseformer", given, [{"alpha": s} for s in sums[1:]])


UNET = {3: {2: 0}, 4: {2: 1, 3: 0}, 5: {3: 1, 4: 0}}  # depth: {layer: whose output it gets}, all from 0


@identity
def unet_skips_are_denseformer(given):
    params, alphas = random_of("unet_skips", given), []
    for m in range(1, len(params) + 1):  # what layer m, from 0, reads
        alpha = torch.zeros(m + 1, dtype=torch.float64)
        alpha[m] = 1
        if m in UNET[len(params)]:
            alpha[UNET[len(params)][m] + 1] += params[m]["w"]
        alphas.append({"alpha": alpha})
    return ready("unet_skips", given, params), ready("denseformer", given, alphas)


@identity
def backout_is_denseformer(given):
    params = random_of("backout", given, layer=0)
    alphas = start_params(REFERENCES["denseformer"].build(), given.layers)
    alphas[-1]["alpha"][1] -= params[-1]["lambda"]
    return ready("backout", given, params, layer=0), ready("denseformer", given, alphas)


@identity
def residual_dual_without_its_sum_is_post_norm(given):
    params = random_of("residual_dual", given)
    params[-1]["gain_output"] = torch.zeros_like(params[-1]["gain_output"])
    plain = [{name: gain for name, gain in own.items() if name != "gain_output"} for own in params]
    return ready("residual_dual", given, params), ready("post_norm", given, plain)


@identity
def mudd_static_is_denseformer(given):
    params = random_of("denseformer", given)
    return ready("denseformer", given, params), ready("mudd_static", given, [{"a": p["alpha"][None]} for p in params])


@identity
def mudd_without_w2_is_static(given):
    def without(m, own):
        return {"w2": torch.zeros_like(own["w2"])}

    params = random_of("mudd", given)
    left = [own | without(m, own) for m, own in enumerate(params, start=1)]
    return ready("mudd", given, left), ready("mudd_multiway_static", given, [{"a": own["a"]} for own in params])


@identity
def mudd_with_equal_ways_is_mudd_static(given):
    params = random_of("mudd_static", given)
    last = len(params)
    wide = [{"a": own["a"] if m == last else own["a"].expand(4, -1)} for m, own in enumerate(params, start=1)]
    return ready("mudd_multiway_static", given, wide), ready("mudd_static", given, params)


@identity
def attnres_block_of_one_is_attnres(given):
    return made("attnres_block", given, size=1), made("attnres", given)


@identity
def grn_v2_with_equal_channels_is_grn_v1(given):
    params, width = random_of("grn_v1", given), given.layers[0].width
    wide = [{name: b.expand(width, -1) for name, b in own.items()} for own in params]
    return ready("grn_v2", given, wide), ready("grn_v1", given, params)


@identity
def grn_v3_without_w_is_grn_v2(given):
    params = random_of("grn_v3", given)
    without = [{n: torch.zeros_like(p) if n.endswith("w") else p for n, p in own.items()} for own in params]
    static = [{n: p for n, p in own.items() if n.endswith("b")} for own in params]
    return ready("grn_v3", given, without), ready("grn_v2", given, static)


@identity
def dca_with_one_shared_grn_is_grn_v3(given):
    params, shared = random_of("grn_v3", given), []
    for own in params:
        ways = {f"{way}_{name}": own[name] for way in "qkv" for name in ("b", "w")}
        shared.append(ways | {name: value for name, value in own.items() if name.startswith("output_")})
    return ready("dca", given, shared), ready("grn_v3", given, params)


@identity
def dca_that_keeps_all_is_dca(given):
    return made("dca", given, kappa=len(given.layers)), made("dca", given)


@identity
def hc_static_with_any_one_stream_is_the_baseline(given):
    def change(m, own):
        read = {}
        for k, name in enumerate(("a_m_attention", "a_m_ffn")):
            read[name] = torch.zeros(4, 1, dtype=torch.float64)
            read[name][(m + 2 * k) % 4] = 1
        eye, one = torch.eye(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
        return read | {"a_r_attention": eye, "a_r_ffn": eye, "b_attention": one, "b_ffn": one}

    return made("hc_static", given, change), baseline(given)


@identity
def hc_dynamic_without_maps_is_static(given):
    params = random_of("hc_dynamic", given)
    still = [{n: torch.zeros_like(p) if n.startswith("w_") else p for n, p in own.items()} for own in params]
    static = [{n: p for n, p in own.items() if n.startswith(("a_", "b_"))} for own in params]
    return ready("hc_dynamic", given, still), ready("hc_static", given, static)


@identity
def frac_of_one_part_is_hc_of_one_stream(given):
    return made("frac_dynamic", given, n=1), made("hc_dynamic", given, n=1, affine=True)


@identity
def mhc_without_phi_is_hc_static(given):
    """A_m = σ(p), A_r = M, B = 2σ(o)."""
    n, model = 3, REFERENCES["mhc"].build(n=3)
    params, static = random_params(model, given.layers), []
    params = [{k: torch.zeros_like(v) if k.startswith("phi") else v for k, v in own.items()} for own in params]
    for own in params:
        fixed = {}
        for site in ("attention", "ffn"):
            b = own[f"b_{site}"]
            fixed |= {f"a_m_{site}": torch.sigmoid(b[:n, None]), f"b_{site}": 2 * torch.sigmoid(b[n : 2 * n])}
            fixed |= {f"a_r_{site}": model.doubly_stochastic(b[2 * n :].reshape(n, n))}
        static.append(fixed)
    return run(model, given, params), ready("hc_static", given, static, n=n)


@identity
def attnres_of_one_block_starts_as_the_baseline_but_for_the_norms_epsilon(given):
    """Half of x_1 plus half of all branches: the norm takes the half away."""
    exact = given._replace(weights=given.weights._replace(eps=0.0))
    model = REFERENCES["attnres_block"].build(size=2 * len(given.layers))
    return run(model, exact, start_params(model, given.layers)), baseline(exact)


@identity
def layer_scale_of_one_is_the_baseline(given):
    return made("layer_scale", given, lambda m, own: {n: torch.ones_like(p) for n, p in own.items()}), baseline(given)


@identity
def rezero_of_one_with_norms_is_the_baseline(given):
    one = torch.ones((), dtype=torch.float64)
    return made("rezero", given, lambda m, own: {"alpha": one}, prenorm=True), baseline(given)


@identity
def rezero_starts_as_the_embedding(given):
    weights = given.weights
    model = REFERENCES["rezero"].build()
    plain = reference.blocks.rms_norm(weights.embedding[given.tokens], weights.eps, weights.final_norm)
    return run(model, given, start_params(model, given.layers)), plain @ weights.output.T


@identity
def highway_with_an_open_uncoupled_gate_is_the_baseline(given):
    def change(m, own):
        return {n: torch.full_like(p, 100.0) if n.startswith("b_") else torch.zeros_like(p) for n, p in own.items()}

    return made("highway", given, change, coupled=False), baseline(given)


@identity
def skips_of_weight_zero_are_the_baseline(given):
    zero = torch.zeros((), dtype=torch.float64)
    left = made("unet_skips", given, lambda m, own: dict.fromkeys(own, zero))
    return left, made("backout", given, lambda m, own: dict.fromkeys(own, zero))
