"""What the catalogue says is equal, of residual, value and score relatives: each gives both sides' logits."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

import reference

from . import REFERENCES
from .cases import Setup, baseline, random_params, run, start_params
from .host import Model, Params
from .scores import Differential, alibi_slopes

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
def realformer_is_v4_m1(given):
    return made("realformer", given), older(given, score=reference.Method("v4_m1", []))


@identity
def realformer_mean_is_v4_m3(given):
    return made("realformer_mean", given), older(given, score=reference.Method("v4_m3", []))


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


@identity
def value_residual_of_zero_and_one_is_the_baseline(given):
    return made("value_residual", given, lambda_1=0.0, lambda_2=1.0), baseline(given)


@identity
def value_residual_learned_at_half_is_value_residual(given):
    model = REFERENCES["value_residual_learned"].build()
    return run(model, given, start_params(model, given.layers)), made("value_residual", given)


class FirstLayersShare(Model):
    """Keys and values are half layer 1's, half the layer's own."""

    def projected(self, m, q, k, v, u):
        first_k, first_v = self.memory.setdefault("first", (k, v))
        return q, (first_k + k) / 2, (first_v + v) / 2


@identity
def lime_of_two_halves_is_a_residual_of_keys_and_values(given):
    def change(m, own):
        if m == 1:
            return {}
        count, r = given.weights.num_kv_heads, torch.zeros_like(own["r"])
        r[:, :count] = r[:, -count:] = torch.eye(count, dtype=torch.float64) / 2
        return {"r": r}

    return made("lime", given, change), run(FirstLayersShare(), given, [{}] * len(given.layers))


@identity
def gated_attention_elementwise_with_equal_columns_is_headwise(given):
    params, head_dim = random_of("gated_attention", given), given.layers[0].head_dim
    wide = [{"w_g": own["w_g"].repeat_interleave(head_dim, dim=1)} for own in params]
    return ready("gated_attention_elementwise", given, wide), ready("gated_attention", given, params)


@identity
def differential_v2_with_the_same_query_twice_is_gated_attention(given):
    """A V − σ(z) A V = σ(−z) A V."""
    params = random_of("gated_attention", given)
    pairs = zip(params, given.weights.layers, strict=True)
    twice = [{"q2": host.wq.T, "w_lambda": -own["w_g"]} for own, host in pairs]
    return ready("differential_v2", given, twice), ready("gated_attention", given, params)


@identity
def talking_heads_pre_is_talking_heads_with_w_one(given):
    params = random_of("talking_heads_pre", given)
    eye = torch.eye(given.weights.num_heads, dtype=torch.float64)
    return ready("talking_heads_pre", given, params), ready("talking_heads", given, [o | {"w": eye} for o in params])


@identity
def mta_with_unit_kernels_and_heads_only_is_talking_heads(given):
    settings = {"norm": False, "gate": False, "conv_first": 0, "conv_every": 1, "rows": 3, "keys": 3}
    model = REFERENCES["mta"].build(**settings)
    params = random_of("talking_heads", given)
    starts = start_params(model, given.layers)
    mixed = [s | {"h_1": own["p"], "h_2": own["w"]} for s, own in zip(starts, params, strict=True)]
    return run(model, given, mixed), ready("talking_heads", given, params)


class FirstMapOfPair(Model):
    """Plain attention in which both heads of a pair use the first one's map."""

    def maps(self, m, scores):
        maps = super().maps(m, scores)
        return torch.stack([maps[:, h - h % 2] for h in range(maps.shape[1])], dim=1)


@identity
def differential_of_lambda_zero_is_attention_with_shared_maps(given):
    def change(m, own):
        size = own["lambda_q1"].numel()
        first = torch.full((size,), math.log(1 - Differential.lambda_0(m)) / size, dtype=torch.float64)
        one, zero = torch.ones(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
        return {"lambda_q1": first, "lambda_k1": one, "lambda_q2": zero, "lambda_k2": one}

    return made("differential", given, change, norm=False), run(FirstMapOfPair(), given, [{}] * len(given.layers))


@identity
def differential_without_norm_is_talking_heads_post(given):
    """Both heads of a pair mix the pair's maps by (1, −λ)."""
    params, mixed = random_of("differential", given, norm=False), []
    for m, own in enumerate(params, start=1):
        first, second = own["lambda_q1"] @ own["lambda_k1"], own["lambda_q2"] @ own["lambda_k2"]
        row = torch.stack([torch.ones_like(first), second.exp() - first.exp() - Differential.lambda_0(m)])
        mixed.append({"w": torch.block_diag(*[torch.stack([row, row])] * (given.weights.num_heads // 2))})
    return ready("differential", given, params, norm=False), ready("talking_heads_post", given, mixed)


@identity
def fox_that_forgets_nothing_is_the_baseline(given):
    def change(m, own):
        return {"w_f": torch.zeros_like(own["w_f"]), "b_f": torch.full_like(own["b_f"], 100.0)}

    return made("fox", given, change), baseline(given)


@identity
def fox_with_constant_gates_is_alibi(given):
    slopes = torch.tensor(alibi_slopes(given.weights.num_heads), dtype=torch.float64)
    bias = -torch.log(torch.expm1(slopes))  # σ(bias) = exp(−slope)
    left = made("fox", given, lambda m, own: {"w_f": torch.zeros_like(own["w_f"]), "b_f": bias})
    return left, made("alibi", given)


class KeysForget(Model):
    """In a row, Σ_{l=j+1..i} log f_l is −Σ_{l≤j} log f_l but for a constant: a bias of the key alone."""

    def shapes(self, layer):
        return {"w_f": (layer.width, layer.num_heads), "b_f": (layer.num_heads,)}

    def scores(self, m, q, k, u):
        gates = torch.sigmoid(u @ self.own(m)["w_f"] + self.own(m)["b_f"])
        bias = -torch.cumsum(torch.log(gates), dim=1)  # (B, T, H)
        return super().scores(m, q, k, u) + bias.permute(0, 2, 1)[:, :, None, :]


@identity
def fox_is_a_bias_of_keys(given):
    params = random_of("fox", given)
    return ready("fox", given, params), run(KeysForget(), given, params)


@identity
def softmax_one_is_a_sink_at_zero(given):
    left = made("attention_sink", given, lambda m, own: {"z": torch.zeros_like(own["z"])})
    return left, made("softmax_one", given)


class GatedSink(Model):
    """softmax(S) V · σ(lse(S) − z)."""

    def shapes(self, layer):
        return {"z": (layer.num_heads,)}

    def maps(self, m, scores):
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        total = torch.logsumexp(scores.masked_fill(future, -math.inf), dim=-1, keepdim=True)
        return super().maps(m, scores) * torch.sigmoid(total - self.own(m)["z"][:, None, None])


@identity
def attention_sink_is_a_gate_on_plain_attention(given):
    params = random_of("attention_sink", given)
    return ready("attention_sink", given, params), run(GatedSink(), given, params)


@identity
def ssmax_of_a_row_whose_scale_is_one_is_the_baseline(given):
    """In one layer: the scale s log n is 1 at row n for s = 1 / log n."""
    one_layer = given._replace(layers=[given.layers[0]._replace(num_layers=1)])
    one_layer = one_layer._replace(weights=given.weights._replace(layers=given.weights.layers[:1]))
    rows = []
    for n in range(2, given.tokens.shape[1] + 1):
        scale = torch.full((given.weights.num_heads,), 1 / math.log(n), dtype=torch.float64)
        rows.append(made("ssmax", one_layer, lambda m, own, scale=scale: {"s": scale})[:, n - 1])
    return torch.stack(rows, dim=1), baseline(one_layer)[:, 1:]


@identity
def cosine_attention_without_norm_at_one_is_the_baseline(given):
    left = made("cosine_attention", given, lambda m, own: {"log_tau": torch.zeros_like(own["log_tau"])}, norm=False)
    return left, baseline(given)
