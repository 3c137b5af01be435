"""Everything that the interface offers, by the smallest method that uses it, against its formula written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from helpers import small_methods as small, small_sites as sites
from helpers.naive_model import Naive
from helpers.random_models import random_model, tokens
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.extension import Extension, preset
from zoo.model.build import model
from zoo.testing import check
from zoo.testing.decoding import decode


class Example(NamedTuple):
    slot: str
    method: Callable[..., Extension]
    naive: type[Naive]
    others: Mapping[str, Callable[..., Extension]] = MappingProxyType({})  # in other slots


EXAMPLES = {
    "stream": Example("residual", small.StreamSum, small.NaiveStreamSum),
    "a stream of two": Example("residual", small.PairOfStreams, small.NaivePairOfStreams),
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


ALONE = [name for name in EXAMPLES if not EXAMPLES[name].others]
QUICK = ["builds", "pure", "layout", "types", "checkpointed", "compiled"]  # what the formulas above do not show


@pytest.mark.parametrize("name", ALONE)
def test_a_method_has_the_properties_that_formulas_do_not_show(name: str) -> None:
    check(EXAMPLES[name].method, EXAMPLES[name].slot, only=QUICK).verify()


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_a_method_has_the_other_properties(name: str) -> None:
    others = ["causal", "rows", "cached", "gradients", "derivative", "deterministic", "saved", "moved", "trains"]
    check(EXAMPLES[name].method, EXAMPLES[name].slot, only=others).verify()


PER_LAYER = 151  # torch 2.9; counted at the commit before


class Operations(TorchDispatchMode):
    """Counts what torch is asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


def operations(depth: int) -> int:
    built, inputs = model(64, 32, depth=depth, width=64, aspect=16), torch.zeros(2, 32, dtype=torch.int64)
    with Operations() as operations:
        built.loss(inputs, inputs).backward()
    return operations.count


def test_the_plain_block_pays_nothing_for_the_slots() -> None:
    """As many operations, forward and backward, as before there were four slots and seven sites."""
    operations(depth=1)  # the first pass makes the table of positions
    assert operations(depth=4) - operations(depth=3) <= PER_LAYER
    block = random_model(depth=1).layers[0]
    attention = block.attention
    assert (attention.mixes_projected, attention.mixes_output, attention.mixes_qkv, block.mixers) == ((), (), (), {})
