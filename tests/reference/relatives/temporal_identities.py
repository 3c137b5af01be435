"""What the catalogue says is equal, of temporal relatives: each gives both sides; beside logits also parts of a mixer."""

import torch
from torch import Tensor

import reference

from ..blocks import rms_norm
from ..temporal import back, gated, softmax_mean, wr_1, wr_7, wr_9, wr_mean
from . import REFERENCES
from .cases import Setup, normal, random_params, run, start_params
from .diagonal import MinGru, RgLru, rg_lru, scan, selective_scan
from .host import Model, Params
from .identities import identity, made, older, random_of, ready
from .local import Smear
from .long_convolution import Cema
from .matrix_state import channel_decayed, delta_rule, linear_sums, retained, state_space_dual
from .mixer import softplus

BATCH, LENGTH, WIDTH, HEADS, KEY, VALUE = 2, 6, 8, 2, 3, 4


def some(*shape: int, seed: int = 3) -> Tensor:
    return normal(torch.Generator().manual_seed(seed), *shape, scale=1.0)


def some_heads() -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v."""
    widths = [KEY, KEY, VALUE]
    q, k, v = (some(BATCH, LENGTH, HEADS, width, seed=n) for n, width in enumerate(widths))
    return q, k, v


def temporal(id: str, params: Params, **settings: object) -> reference.Method:
    return reference.Method(id, params, settings)


def canon_c(given: Setup, taps_of: object, count: int) -> Tensor:
    """Canon at the FFN's input without u; `taps_of(m)` are `count` taps, scalars or per channel."""
    width, params = given.layers[0].width, []
    for layer in given.layers:
        taps = [torch.as_tensor(tap).expand(width) for tap in taps_of(layer.number)]
        params.append({"w_c": torch.stack(taps, dim=1)})
    return ready("canon_c", given, params, residual=False, taps=count)


def scalars(given: Setup, *names: str) -> Params:
    values = [some(len(names), seed=layer.number) for layer in given.layers]
    return [dict(zip(names, value, strict=True)) for value in values]


@identity
def token_shift_of_one_share_is_wr_1(given):
    params, width = scalars(given, "gamma"), given.layers[0].width
    shares = [{"mu_ffn": torch.sigmoid(own["gamma"]).expand(width)} for own in params]
    return ready("token_shift", given, shares, sites=("ffn",)), older(given, temporal=temporal("wr_1", params))


@identity
def canon_of_two_taps_is_wr_1(given):
    params = scalars(given, "gamma")
    shares = [torch.sigmoid(own["gamma"]) for own in params]
    left = canon_c(given, lambda m: (shares[m - 1], 1 - shares[m - 1]), 2)
    return left, older(given, temporal=temporal("wr_1", params))


@identity
def canon_of_three_scalar_taps_is_wr_5(given):
    params = scalars(given, "gamma1", "gamma2")

    def taps_of(m):
        first, second = torch.sigmoid(params[m - 1]["gamma1"]), torch.sigmoid(params[m - 1]["gamma2"])
        return first, (1 - first) * second, (1 - first) * (1 - second)

    return canon_c(given, taps_of, 3), older(given, temporal=temporal("wr_5", params))


@identity
def canon_of_three_scalar_taps_is_wr_6(given):
    left, _ = canon_of_three_scalar_taps_is_wr_5(given)
    return left, older(given, temporal=temporal("wr_6", scalars(given, "gamma1", "gamma2")))


@identity
def canon_contains_wr_8_3_with_a_constant_gate(given):
    width, n, params = given.layers[0].width, 3, []
    for layer in given.layers:
        own = {"gate_w": torch.zeros(width, width, dtype=torch.float64), "gate_b": some(width, seed=layer.number)}
        params.append(own | {"w": some(width, n, seed=10 + layer.number)})

    def taps_of(m):
        gate, shares = torch.sigmoid(params[m - 1]["gate_b"]), torch.softmax(params[m - 1]["w"], dim=1)
        return [gate, *((1 - gate) * shares[:, k] for k in range(n))]

    return canon_c(given, taps_of, n + 1), older(given, temporal=temporal("wr_8_3", params))


@identity
def primer_dconv_is_canon_b_without_u(given):
    params = random_of("primer_dconv", given)
    joined = [{"w_b": torch.cat([own["w_q"], own["w_k"], own["w_v"]])} for own in params]
    left = ready("canon", given, joined, sites="B", residual=False, taps=3)
    return left, ready("primer_dconv", given, params)


@identity
def kv_shift_without_w_is_canon_b_with_halves(given):
    def taps_of(layer):
        queries, keys = layer.num_heads * layer.head_dim, 2 * layer.num_kv_heads * layer.head_dim
        return torch.tensor([[1.0, 0.0]] * queries + [[0.5, 0.5]] * keys, dtype=torch.float64)

    left = made("kv_shift", given, lambda m, own: {name: torch.zeros_like(w) for name, w in own.items()})
    params = [{"w_b": taps_of(layer)} for layer in given.layers]
    return left, ready("canon", given, params, sites="B", residual=False, taps=2)


@identity
def token_shift_lora_without_maps_is_token_shift(given):
    params = random_of("token_shift", given)
    model = REFERENCES["token_shift_lora"].build(rank=2)
    still = []
    for start, own in zip(start_params(model, given.layers), params, strict=True):
        still.append(start | {name.replace("mu_", "lambda_"): 1 - share for name, share in own.items()})
    return run(model, given, still), ready("token_shift", given, params)


@identity
def smear_of_one_is_wr_1_of_two_thirds(given):
    model = Smear()
    model.params = [{"lambda": torch.ones((), dtype=torch.float64), "w": torch.zeros(12, dtype=torch.float64)}]
    rows = given.weights.embedding[given.tokens]
    two_thirds = {"gamma": torch.log(torch.tensor(2.0, dtype=torch.float64))}
    return model.embedded(rows), 1.5 * wr_1(rows, **two_thirds)


@identity
def linear_attention_is_the_context_of_wr_9(given):
    u, w, w_a = some(BATCH, LENGTH, WIDTH), some(2, seed=4), some(WIDTH, WIDTH, seed=5)
    gate = {"gate_w": some(WIDTH, WIDTH, seed=6), "gate_b": some(WIDTH, seed=7)}
    q, k, v = (x[:, :, None] for x in (softmax_mean(u, w), u, u @ w_a.T))
    context = linear_sums(q, k, v)[:, :, 0] / WIDTH
    other = wr_9(u, **gate, w=w, w_a=w_a, values="token")
    return gated(u, context, **gate), other


@identity
def normalised_linear_attention_of_ones_is_the_pool_of_wr_mean(given):
    u, w1 = some(BATCH, LENGTH, WIDTH), torch.eye(WIDTH, dtype=torch.float64)
    one = torch.ones(BATCH, LENGTH, 1, 1, dtype=torch.float64)
    pool = (linear_sums(one, one, u[:, :, None]) / linear_sums(one, one, one))[:, :, 0]
    params = {"w1": w1, "gamma": torch.tensor(-100.0, dtype=torch.float64)}  # the pool alone
    return back(pool, 1), wr_mean(u, **params)


@identity
def gated_deltanet_that_forgets_nothing_is_deltanet(given):
    widths = {"key_width": 3, "value_width": 4}
    params = random_of("deltanet", given, **widths)
    model = REFERENCES["gated_deltanet"].build(gate=False, **widths)
    whole = []
    for own, other in zip(params, random_params(model, given.layers), strict=True):
        whole.append(other | own | {"a_log": torch.full_like(other["a_log"], -100.0)})
    return run(model, given, whole), ready("deltanet", given, params, **widths)


@identity
def delta_rule_of_beta_zero_adds_nothing(given):
    q, k, v = some_heads()
    alpha = torch.sigmoid(some(BATCH, LENGTH, HEADS))
    return delta_rule(q, k, v, alpha, torch.zeros_like(alpha)), torch.zeros_like(v)


@identity
def delta_rule_of_orthogonal_keys_is_a_sum(given):
    """What was stored under other keys stays as it was."""
    k = torch.eye(LENGTH, dtype=torch.float64).expand(1, LENGTH, LENGTH)[:, :, None]
    q, v = some(1, LENGTH, 1, LENGTH), some(1, LENGTH, 1, VALUE, seed=4)
    alpha, beta = torch.ones(1, LENGTH, 1, dtype=torch.float64), torch.sigmoid(some(1, LENGTH, 1, seed=5))
    return delta_rule(q, k, v, alpha, beta), linear_sums(q, k, beta[..., None] * v)


@identity
def gla_with_one_number_per_head_is_mamba2s_recurrence(given):
    _, _, v = some_heads()
    b, c = some(BATCH, LENGTH, KEY, seed=5), some(BATCH, LENGTH, KEY, seed=6)
    delta, a = softplus(some(BATCH, LENGTH, HEADS, seed=7)), -torch.exp(some(HEADS, seed=8))
    alpha = torch.exp(delta * a)[..., None].expand(-1, -1, -1, KEY)
    q, k = (x[:, :, None].expand(-1, -1, HEADS, -1) for x in (c, b))
    return channel_decayed(q, k, delta[..., None] * v, alpha), state_space_dual(v, delta, a, b, c)


@identity
def gla_with_constant_numbers_is_retention(given):
    q, k, v = some_heads()
    gamma = torch.sigmoid(some(HEADS))
    alpha = gamma[:, None].expand(BATCH, LENGTH, HEADS, KEY)
    return channel_decayed(q, k, v, alpha), retained(q, k, v, gamma)


@identity
def retention_that_forgets_nothing_is_linear_attention(given):
    q, k, v = some_heads()
    return retained(q, k, v, torch.ones(HEADS, dtype=torch.float64)), linear_sums(q, k, v)


@identity
def mamba2_with_heads_of_one_is_mamba_with_one_decay_per_channel(given):
    x, delta = some(BATCH, LENGTH, WIDTH), softplus(some(BATCH, LENGTH, WIDTH, seed=4))
    b, c = some(BATCH, LENGTH, KEY, seed=5), some(BATCH, LENGTH, KEY, seed=6)
    a = -torch.exp(some(WIDTH, seed=7))
    left = state_space_dual(x[..., None], delta, a, b, c)[..., 0]
    return left, selective_scan(x, delta, a[:, None].expand(-1, KEY), b, c)


def gates_open(width: int) -> dict[str, Tensor]:
    """r ≡ 1 and i ≡ 1."""
    zero, large = torch.zeros(width, width, dtype=torch.float64), torch.full((width,), 100.0, dtype=torch.float64)
    return {"w_r": zero, "w_i": zero, "b_r": large, "b_i": large}


@identity
def griffin_with_open_gates_is_a_bank_of_averages(given):
    p, ring = some(BATCH, LENGTH, WIDTH), some(WIDTH, seed=4)
    decay = torch.exp(-8 * softplus(ring))
    rows = []
    for t in range(LENGTH):
        terms = [decay ** (t - s) * torch.sqrt(1 - decay**2) * p[:, s] for s in range(1, t + 1)]
        rows.append(decay**t * p[:, 0] + sum(terms))  # the first token comes whole
    return rg_lru(p, gates_open(WIDTH) | {"lambda": ring}, first_whole=True), torch.stack(rows, dim=1)


def rg_lru_and_wr_7(ring: float) -> tuple[Tensor, Tensor]:
    """Both methods of the same u and parameters, with one Λ for all channels."""
    u, model = some(BATCH, LENGTH, WIDTH), RgLru(residual=False)
    own = {"w_r": 0.2 * some(WIDTH, WIDTH, seed=4), "w_i": some(WIDTH, WIDTH, seed=5)}
    own |= {"b_r": some(WIDTH, seed=6), "b_i": some(WIDTH, seed=7)}
    scalar = torch.tensor(ring, dtype=torch.float64)
    model.params, model.eps = [own | {"lambda": scalar.expand(WIDTH)}], 1e-5
    theirs = {name: value.T if name.startswith("w_") else value for name, value in own.items()} | {"lam": scalar}
    return model.mix(1, u), wr_7(u, **theirs, eps=1e-5)


@identity
def rg_lru_begins_as_wr_7(given):
    left, right = rg_lru_and_wr_7(-1.0)
    return left[:, 0], right[:, 0]


@identity
def rg_lru_that_forgets_all_is_wr_7(given):
    return rg_lru_and_wr_7(700.0)


@identity
def min_gru_without_gate_is_a_mean_that_halves(given):
    u, model, eye = some(BATCH, LENGTH, WIDTH), MinGru(plain=True), torch.eye(WIDTH, dtype=torch.float64)
    model.params = [{"w_z": torch.zeros_like(eye), "w_h": eye, "w_o": eye}]
    rows = [sum(0.5 ** (t - s + 1) * u[:, s] for s in range(t + 1)) for t in range(LENGTH)]
    return model.mix(1, u), torch.stack(rows, dim=1)


@identity
def scan_is_a_sum_of_products(given):
    a, b = torch.sigmoid(some(BATCH, LENGTH, WIDTH)), some(BATCH, LENGTH, WIDTH, seed=4)
    rows = []
    for t in range(LENGTH):
        rows.append(sum(torch.prod(a[:, s + 1 : t + 1], dim=1) * b[:, s] for s in range(t + 1)))
    return scan(a, b), torch.stack(rows, dim=1)


@identity
def cema_is_a_convolution(given):
    model, u = Cema(modes=3), some(BATCH, LENGTH, given.layers[0].width)
    model.params = random_params(model, given.layers[:1])
    own = model.params[0]
    alpha, delta = torch.sigmoid(own["alpha"]), torch.sigmoid(own["delta"])
    angle = torch.sigmoid(own["theta"])[:, None] * 2 * torch.pi * torch.arange(1, 4) / 3
    factor = (1 - alpha * delta) * torch.exp(1j * angle)
    weight = torch.complex(own["gamma_re"], own["gamma_im"]) * alpha / 3**0.5
    kernel = [(weight * factor**lag).sum(dim=-1).real for lag in range(LENGTH)]
    rows = [sum(kernel[t - s] * u[:, s] for s in range(t + 1)) + own["omega"] * u[:, t] for t in range(LENGTH)]
    return model.average(1, u), torch.stack(rows, dim=1)


class NormedFfnInput(Model):
    """The FFN reads RMSNorm(u)."""

    def ffn_input(self, m, u):
        return rms_norm(u, self.eps)


@identity
def cema_without_modes_passes_u_on(given):
    def change(m, own):
        zero = torch.zeros_like(own["gamma_re"])
        return {"gamma_re": zero, "gamma_im": zero, "omega": torch.ones_like(own["omega"])}

    left = made("cema", given, change, site="ffn", residual=False)
    return left, run(NormedFfnInput(), given, [{}] * len(given.layers))
