"""What the catalogue says is equal, of value and score relatives: each gives both sides' logits."""

import math

import torch

import reference

from . import REFERENCES
from .cases import baseline, run, start_params
from .host import Model
from .identities import identity, made, older, random_of, ready
from .scores import Differential, alibi_slopes


@identity
def realformer_is_v4_m1(given):
    return made("realformer", given), older(given, score=reference.Method("v4_m1", []))


@identity
def realformer_mean_is_v4_m3(given):
    return made("realformer_mean", given), older(given, score=reference.Method("v4_m3", []))


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
