"""The identities of the catalogue hold between the references, in both hosts."""

import pytest
import torch

from . import REFERENCES
from .cases import HOSTS, random_params, run, same, setup
from .scores import SelectiveAttention, alibi_slopes
from .streams import ManifoldHyperConnections
from .temporal_identities import IDENTITIES


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", IDENTITIES)
def test_identity(name, host):
    same(*IDENTITIES[name](setup(host)))


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


def test_alibi_slopes():
    assert alibi_slopes(8) == [2.0**-h for h in range(1, 9)]
    assert alibi_slopes(4) == [2.0**-h for h in (2, 4, 6, 8)]
    assert alibi_slopes(6) == [2.0**-h for h in (2, 4, 6, 8, 1, 3)]
    assert alibi_slopes(1) == [2.0**-8]


def test_selective_attention_leaves_the_first_key_oneself_and_the_current_query_alone():
    given = setup(length=4)
    model = SelectiveAttention()
    model.weights, model.sizes = given.weights, given.layers
    q = [torch.ones(1, 4, 4, dtype=torch.float64)] * 4
    scores = model.scores(1, q, q[:2], torch.zeros(1, 4, 16, dtype=torch.float64))[0, 1]
    # plain logits are 4 / √4 = 2; key 1 is marked by query 2, which query 3 feels
    expected = torch.full((4, 4), 2.0, dtype=torch.float64)
    expected[3, 1] = 0
    same(scores, expected)
