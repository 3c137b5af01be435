"""The identities of the catalogue hold between the references, in both hosts."""

import math

import pytest
import torch

from ..blocks import rms_norm
from . import REFERENCES, head_identities, norms, temporal_identities
from .cases import HOSTS, normal, random_params, run, same, setup
from .diagonal import rg_lru
from .identities import IDENTITIES
from .scores import SelectiveAttention, alibi_slopes
from .streams import ManifoldHyperConnections


def test_all_are_here():
    modules = {function.__module__ for function in IDENTITIES.values()}
    assert {head_identities.__name__, temporal_identities.__name__} < modules


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", IDENTITIES)
def test_identity(name, host):
    same(*IDENTITIES[name](setup(host)))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("depth", [4, 5])
@pytest.mark.parametrize("name", ["unet_skips_are_denseformer", "laurel_pa_of_earlier_inputs_is_denseformer"])
def test_identity_of_deeper_models(name, depth, host):
    same(*IDENTITIES[name](setup(host, depth=depth)))


@pytest.mark.parametrize("name", ["fox_that_forgets_nothing_is_the_baseline", "fox_with_constant_gates_is_alibi"])
def test_identity_without_positions(name):
    same(*IDENTITIES[name](setup(rope=False)))


@pytest.mark.parametrize("host", HOSTS)
def test_differential_reads_the_same_values_either_way_without_shared_heads(host):
    given = setup(host, kv_heads=4)
    own, pair = (REFERENCES["differential"].build(values=values) for values in ("own", "pair"))
    params = random_params(own, given.layers)
    same(run(own, given, params), run(pair, given, params))


def test_mhc_mixes_with_weights_that_sum_to_one():
    model = ManifoldHyperConnections(iterations=200)
    mix = model.doubly_stochastic(torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(0)).double())
    same(mix.sum(dim=-2), torch.ones(1, 2, 4, dtype=torch.float64))
    same(mix.sum(dim=-1), torch.ones(1, 2, 4, dtype=torch.float64))


def test_mhc_takes_rows_first_then_columns():
    r = torch.tensor([[0.0, 1.0], [2.0, -1.0]], dtype=torch.float64)
    rows = [[math.exp(x) / sum(math.exp(y) for y in row) for x in row] for row in r.tolist()]
    once = [[rows[i][j] / (rows[0][j] + rows[1][j]) for j in range(2)] for i in range(2)]
    again = [[once[i][j] / (once[i][0] + once[i][1]) for j in range(2)] for i in range(2)]
    twice = [[again[i][j] / (again[0][j] + again[1][j]) for j in range(2)] for i in range(2)]
    for iterations, expected in [(1, once), (2, twice)]:
        mix = ManifoldHyperConnections(n=2, iterations=iterations).doubly_stochastic(r)
        same(mix, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("first_whole", [True, False])
def test_rg_lru_of_one_channel(first_whole):
    p, ring, w_r, b_r, w_i, b_i = [0.5, -1.0, 2.0, 0.3], -0.7, 0.9, 0.2, -0.4, 0.1
    h, rows = 0.0, []
    for t, x in enumerate(p):
        r, i = 1 / (1 + math.exp(-(w_r * x + b_r))), 1 / (1 + math.exp(-(w_i * x + b_i)))
        a = math.exp(-8 * math.log(1 + math.exp(ring)) * r)
        h = a * h + (1.0 if first_whole and t == 0 else math.sqrt(1 - a * a)) * i * x
        rows.append(h)
    own = {"w_r": [[w_r]], "b_r": [b_r], "w_i": [[w_i]], "b_i": [b_i], "lambda": [ring]}
    own = {name: torch.tensor(value, dtype=torch.float64) for name, value in own.items()}
    out = rg_lru(torch.tensor(p, dtype=torch.float64)[None, :, None], own, first_whole=first_whole)
    same(out[0, :, 0], torch.tensor(rows, dtype=torch.float64))


@pytest.mark.parametrize("host", HOSTS)
def test_residual_dual_keeps_all_branches(host):
    given = setup(host, depth=2)
    model, noted = norms.ResidualDual(), []
    model.attention = lambda m, x: noted.append(normal(torch.Generator().manual_seed(m), *x.shape)) or noted[-1]
    model.ffn = lambda m, x: noted.append(normal(torch.Generator().manual_seed(-m), *x.shape)) or noted[-1]
    params = random_params(model, given.layers)
    params[-1]["gain_ffn"] = torch.zeros_like(params[-1]["gain_ffn"])  # nothing but the sum is left
    out = model.hidden(given.tokens, given.weights, params, given.layers)
    total = given.weights.embedding[given.tokens] + sum(noted)
    assert len(noted) == 4
    same(out, rms_norm(total, given.weights.eps, params[-1]["gain_output"]))


def test_alibi_slopes():
    assert alibi_slopes(8) == [2.0**-h for h in range(1, 9)]
    assert alibi_slopes(4) == [2.0**-h for h in (2, 4, 6, 8)]
    assert alibi_slopes(6) == [2.0**-h for h in (2, 4, 6, 8, 1, 3)]
    assert alibi_slopes(1) == [2.0**-8]


def test_selective_attention_leaves_the_first_key_oneself_and_the_current_query_alone():
    given = setup(length=4)
    model = SelectiveAttention()
    model.weights, model.sizes = given.weights, given.layers
    one = torch.ones(1, 4, 4, dtype=torch.float64)
    scores = model.scores(1, [one, 3 * one, one, one], [one, one], torch.zeros(1, 4, 16, dtype=torch.float64))
    # head 0's logits are 4 / √4 = 2, head 1's 6; key 1 is marked by query 2, by 2, which query 3 feels
    for head, plain in enumerate([2.0, 6.0, 2.0, 2.0]):
        expected = torch.full((4, 4), plain, dtype=torch.float64)
        expected[3, 1] -= 2
        same(scores[0, head], expected)
