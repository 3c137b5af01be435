"""Decoding with a state gives what the whole pass gives: every method, in both hosts, however the tokens come."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from models import METHODS, extension_of, factory, random_model, tokens
from torch import Tensor

from zoo.errors import ConfigError, ZooError
from zoo.extension import AttentionInputs, Layer, Residual, preset
from zoo.generate import state_bag
from zoo.model import LanguageModel, check_composition
from zoo.plugins import settings as settings_of

LENGTH = 13
HOSTS = ["sequential", "parallel"]
SITES = ["ffn", "attention_input", "attention"]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
# Chunk sizes: token by token; behind a prefill of 1, n and n + 1 tokens (n = 4 is what methods keep by default); all at once.
PLANS = [[1] * LENGTH, [1, 2, 5, 5], [4, 1, 1, 2, 5], [5, 1, 5, 2], [2, 1, 10], [LENGTH]]
REFUSED = ["wr_8_log", "wr_9_log"]  # all of the catalogue that may refuse
DECODED = [(slot, method) for slot, method in METHODS if method not in REFUSED]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@torch.no_grad()
def decode(built: LanguageModel, inputs: Tensor, plan: Sequence[int]) -> Tensor:
    """The logits of all tokens, given in chunks."""
    bag = state_bag(inputs.size(1))
    done = []
    for chunk in inputs.split(list(plan), dim=1):
        done.append(built(chunk, state_bag=bag))
        bag.increment_step_nr(chunk.size(1))
    return torch.cat(done, dim=1)


def assert_close(decoded: Tensor, whole: Tensor) -> None:
    assert decoded.shape == whole.shape
    size = max(1.0, float(whole.abs().max()))
    assert float((decoded - whole).abs().max()) / size < TOLERANCE[whole.dtype]


@torch.no_grad()
def assert_decodes(built: LanguageModel, plans: Sequence[Sequence[int]] = PLANS, seed: int = 0) -> None:
    built.eval()
    for plan in plans:
        inputs = tokens(2, sum(plan), seed)
        assert_close(decode(built, inputs, plan), built(inputs))


def takes(slot: str, method: str, setting: str) -> bool:
    return setting in {s.name for s in settings_of(factory(slot, method))}


# --- each method alone


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("slot", "method"), [("residual", None), *DECODED])
def test_decodes(slot: str, method: str | None, host: str) -> None:
    chosen = {slot: factory(slot, method)} if method else {}
    for depth, kv_heads, dtype in ((4, 2, torch.float64), (3, 4, torch.float32), (1, 1, torch.float64)):
        shape = {"depth": depth, "num_kv_heads": kv_heads, "parallel": host == "parallel"}
        built = random_model(depth, dtype, **shape, **chosen)
        assert_decodes(built, PLANS if depth == 4 else PLANS[:2] if depth == 3 else PLANS[2:4])
