"""Everything that the interface offers, by the smallest method that uses it, against its formula written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import pytest
import torch
from helpers import small_methods as small, small_sites as sites
from helpers.naive_model import Naive
from helpers.random_models import VOCAB, random_model, tokens

from zoo.extension import Extension, preset
from zoo.testing import check
from zoo.testing.decoding import decode


class Example(NamedTuple):
    slot: str
    method: Callable[..., Extension]
    naive: type[Naive]
    others: Mapping[str, Callable[..., Extension]] = MappingProxyType({})  # in other slots


EXAMPLES = {
    "stream": Example("residual", small.StreamSum, small.NaiveStreamSum),
    "tokens": Example("head_mixing", small.TokenTable, small.NaiveTokenTable),
    "projected": Example("head_mixing", small.FirstValues, small.NaiveFirstValues),
    "output": Example("head_mixing", small.GatedOutput, small.NaiveGatedOutput),
    "more query heads": Example("head_mixing", small.TwiceTheQueries, small.NaiveTwiceTheQueries),
    "weights": Example("score_mixing", small.MixedWeights, small.NaiveMixedWeights),
    "null": Example("score_mixing", small.Sink, small.NaiveSink),
    "null of a sum": Example("score_mixing", preset(small.Sink, twice=True), small.NaiveSink),
    "no pre-norm": Example("residual", sites.PostNorm, sites.NaivePostNorm),
    "no rotary positions": Example("score_mixing", sites.Unturned, sites.NaiveUnturned),
    "sites": Example("temporal_mixing", sites.Shifts, sites.NaiveShifts),
    "three inputs": Example("temporal_mixing", sites.ThreeInputs, sites.NaiveThreeInputs),
    "some layers": Example("temporal_mixing", sites.every_other, sites.NaiveEveryOther),
    "scores of some layers": Example(
        "temporal_mixing", sites.every_other, sites.NaiveScoreSum, {"score_mixing": sites.ScoreSum}
    ),
}


@pytest.mark.parametrize("parallel", [False, True], ids=["sequential", "parallel"])
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_method_computes_its_formula(name: str, kv_heads: int, parallel: bool) -> None:
    slot, method, naive, others = EXAMPLES[name]
    built = random_model(depth=4, num_kv_heads=kv_heads, parallel=parallel, **{slot: method}, **others)
    inputs, parameters = tokens(2, 7), list(built.parameters())
    ours, theirs = built(inputs), naive(built, slot).logits(inputs)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    along = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=ours.dtype)
    gradients = [torch.autograd.grad((y * along).sum(), parameters, allow_unused=True) for y in (ours, theirs)]
    for one, other in zip(*gradients, strict=True):
        assert (one is None or not one.any()) if other is None else torch.allclose(one, other, rtol=1e-7, atol=1e-8)
    with torch.no_grad():
        for plan in ([1] * 7, [3, 4], [5, 1, 1]):
            torch.testing.assert_close(decode(built, inputs, plan), theirs.detach(), rtol=1e-9, atol=1e-9)


KIT = ["builds", "pure", "causal", "rows", "cached", "gradients", "derivative", "layout", "types", "saved", "moved"]


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not EXAMPLES[name].others])
def test_a_method_has_every_property(name: str) -> None:
    slot, method, *_ = EXAMPLES[name]
    check(method, slot, only=[*KIT, "checkpointed", "compiled"]).verify()


def test_the_tokens_of_a_table_are_those_of_the_vocabulary() -> None:
    assert VOCAB == 50  # what `TokenTable` has rows for
