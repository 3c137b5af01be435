"""When activations are watched, on what, and that training does not notice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from helpers.random_models import factory, random_model, tokens
from torch import Tensor

from zoo.training.activations import EVERY, SHARE, activations, is_due, quantities
from zoo.training.watch import Watch


class Data:
    def __init__(self) -> None:
        self.asked = 0

    def evaluate(self, split: str) -> Iterator[tuple[Tensor, Tensor]]:
        self.asked += 1
        assert split == "valid"
        yield tokens(16, 8), tokens(16, 8)


def session_of(method: str = "wr_8_2", step_tokens: int = 8 * 8 * 2, **slots: object) -> Any:
    chosen = slots or {"temporal_mixing": factory("temporal_mixing", method)}
    return SimpleNamespace(
        model=random_model(dtype=torch.float32, dropout=0.3, **chosen).train(),
        ranks=SimpleNamespace(device=torch.device("cpu"), size=1),
        replica=SimpleNamespace(is_whole=True),
        state=SimpleNamespace(step=50),
        data=Data(),
        autocast=contextlib.nullcontext,
        tokens_per_step=step_tokens,
        watch=Watch(),
    )


def test_due_follows_from_the_step_alone() -> None:
    due = [step for step in range(10, 301, 10) if is_due(step, 300, 10, 200)]
    assert due == [50, 100, 150, 200, 250, 300]
    assert [step for step in range(1, 130) if is_due(step, 130, 1, 1000)] == [50, 100]
    assert is_due(70, 70, 10, 1000) and is_due(20, 70, 10, 20) and is_due(80, 1000, 80, 1000)
    assert EVERY / 10 == 5  # of the default logging interval


def test_a_pass_takes_an_eighth_of_a_batch_and_leaves_no_trace() -> None:
    session = session_of()
    before = torch.get_rng_state()
    seen = activations(session)
    assert "gate_mean" in seen and session.model.training
    assert torch.equal(torch.get_rng_state(), before)
    assert session.watch.tokens.shape == (8 * 8 * 2 // SHARE // 8, 8)


def test_a_method_that_draws_at_random_leaves_the_random_state_too() -> None:
    session = session_of("wr_8_log")
    before = torch.get_rng_state()
    assert activations(session) and torch.equal(torch.get_rng_state(), before)


def test_the_batch_is_fixed_and_a_step_has_one_pass() -> None:
    session = session_of()
    first = activations(session)
    assert activations(session) is first
    session.state.step = 100
    assert activations(session) is not first and session.data.asked == 1
    for name, layers in first.items():  # the same batch, in evaluation mode: no dropout
        assert all(torch.equal(value, session.watch.seen[name][layer]) for layer, value in layers.items())


def test_a_small_batch_is_watched_by_one_row() -> None:
    session = session_of(step_tokens=8)
    activations(session)
    assert session.watch.tokens.shape == (1, 8)


def test_where_nothing_is_shown_there_is_one_pass_and_no_more() -> None:
    session = session_of("wr_1")
    assert activations(session) == {} and session.watch.silent
    session.model = None  # another pass would fail
    session.state.step = 100
    assert activations(session) == {}


def test_learned_and_shown_stand_side_by_side() -> None:
    assert {"kernel", "gate_at_zero", "gate_mean", "gate_q95"} <= quantities(session_of()).keys()
