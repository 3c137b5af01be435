"""Leaks of many kinds and strengths are found by the kit or stop a training; what is honest is left alone."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers import leaking_methods as leaking, tiny_training
from torch import Tensor, nn

from zoo.errors import RunError
from zoo.extension import Layer, TemporalMixing
from zoo.model.build import model
from zoo.plugins.finder import find_methods
from zoo.plugins.registry import installed
from zoo.state import State
from zoo.testing import check
from zoo.training import leak_alarm, leak_check, trainer
from zoo.training.leak_check import Question

METHODS = [(found.slot, found.id) for found in find_methods()]
LEAK_AS_DECLARED = {"wr_9_log"}
VOCABULARY = 50
FAINT = 1e-6


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def session(
    length: int = 24, rows: int = 5, valid: int = 7, autocast: Any = contextlib.nullcontext, **given: Any
) -> Any:
    """As much of a session as the check looks at: a model about to be trained, and data."""
    built = model(VOCABULARY, length, **({"depth": 1, "width": 16, "head_dim": 8, "seed": 1} | given))
    tokens = torch.randint(VOCABULARY, (valid, length), generator=torch.Generator().manual_seed(0))
    return SimpleNamespace(
        model=built.train(),
        data=SimpleNamespace(evaluate=lambda split: iter([(tokens, tokens)]), batch_size=rows),
        settings=SimpleNamespace(seed=1),
        state=SimpleNamespace(step=0),
        ranks=SimpleNamespace(device=torch.device("cpu")),
        autocast=autocast,
    )


def leaks(kind: str, strength: float, **given: Any) -> str:
    """What is found before a training, at a size at which this kind leaks."""
    method = leaking.LEAKS[kind]
    sizes = {"length": max(24, method.least), "depth": 7 if method is leaking.SeventhLayer else 1}
    factory = functools.partial(method, strength=strength)
    return leak_alarm.before_training(session(temporal_mixing=factory, **(sizes | given))).leak


# --- before a training


@pytest.mark.parametrize("kind", leaking.LEAKS)
def test_a_faint_leak_is_found_before_training(kind: str) -> None:
    told = leaks(kind, FAINT)
    assert ("rows see each other" if "flattened" in kind else "it sees the future") in told
    assert ("in evaluation" if "in evaluation" in kind else "in training") in told


@pytest.mark.slow
@pytest.mark.parametrize("strength", leaking.STRENGTHS)
@pytest.mark.parametrize("kind", leaking.LEAKS)
def test_a_leak_of_any_strength_is_found_before_training(kind: str, strength: float) -> None:
    assert leaks(kind, strength, depth=8, length=160, rows=8)
    if strength > 1e-3:
        assert leaks(kind, strength, depth=8, length=160, autocast=lambda: torch.autocast("cpu", torch.bfloat16))


def test_no_method_of_the_project_is_suspected() -> None:
    suspected, registry = set(), installed()
    for slot, id in METHODS:
        factory = registry.get(slot, id).factory
        found = leak_alarm.before_training(session(19, 7, 8, depth=2, dropout=0.1, **{slot: factory}))
        assert not found.note, id
        suspected |= {id} if found.leak else set()
    assert suspected == LEAK_AS_DECLARED


@pytest.mark.slow
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("slot", "id"), METHODS)
def test_a_method_of_the_project_is_never_suspected(slot: str, id: str, precision: torch.dtype) -> None:
    cast = functools.partial(torch.autocast, "cpu", precision) if precision != torch.float32 else contextlib.nullcontext
    given = session(
        130, 8, 16, depth=4, width=64, head_dim=32, autocast=cast, **{slot: installed().get(slot, id).factory}
    )
    found = [leak_alarm.before_training(given)]
    for step in range(10):
        given.state.step = step
        found.append(leak_alarm.at_validation(given))
    assert all(bool(each.leak) == (id in LEAK_AS_DECLARED) and not each.note for each in found)


class Convolution(TemporalMixing):
    """A causal convolution by Fourier transforms: its rounding reaches every position, later tokens' too."""

    decodes = False

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(layer.max_length, layer.width))

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        length = u.size(1)
        parts = (torch.fft.rfft(x, n=2 * length, dim=-2) for x in (u, self.kernel[:length]))
        return torch.fft.irfft(next(parts) * next(parts), n=2 * length, dim=-2)[:, :length]


def test_rounding_is_no_leak() -> None:
    given = session(temporal_mixing=Convolution)
    tokens, _ = next(given.data.evaluate("valid"))
    answers = [Question(given.model, False).answer(each) for each in (tokens, (tokens + (torch.arange(24) > 11)) % 50)]
    assert not torch.equal(answers[0][:, :12], answers[1][:, :12])  # bits differ
    assert leak_alarm.before_training(given) == leak_check.Finding()
    assert check(Convolution, only=["causal", "rows"]).ok


class Wanders(TemporalMixing):
    """Draws from a generator of its own: no two passes are equal."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.drawn = torch.Generator().manual_seed(0)

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return u + 0.1 * torch.randn(u.shape, generator=self.drawn)


def test_a_model_that_is_never_the_same_cannot_be_judged() -> None:
    found = leak_alarm.before_training(session(temporal_mixing=Wanders))
    assert not found.leak and "two equal passes differ" in found.note


class Averages(TemporalMixing):
    """Keeps a running mean of all it sees, in place; draws from every global generator."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(layer.width))
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        if self.training:
            self.seen.lerp_(u.detach().mean(dim=(0, 1)), 0.1)
        return u + self.gate * random.random() * torch.rand(())


def test_the_check_leaves_no_trace() -> None:
    given = session(temporal_mixing=Averages)
    kept = {name: value.clone() for name, value in given.model.state_dict().items()}
    states = (torch.get_rng_state(), random.getstate())
    pointers = [parameter.data_ptr() for parameter in given.model.parameters()]
    assert leak_alarm.before_training(given) == leak_alarm.at_validation(given) == leak_check.Finding()
    assert all(torch.equal(value, kept[name]) for name, value in given.model.state_dict().items())
    assert [parameter.data_ptr() for parameter in given.model.parameters()] == pointers
    assert torch.equal(torch.get_rng_state(), states[0]) and random.getstate() == states[1]
    assert given.model.training and all(parameter.grad is None for parameter in given.model.parameters())


# --- the cuts


@pytest.mark.parametrize(("rows", "length"), [(1, 1), (1, 2), (3, 2), (8, 33), (2, 128), (300, 32)])
def test_cuts_fit(rows: int, length: int) -> None:
    for cuts in (leak_check.thorough_cuts(rows, length, 0), leak_check.few_cuts(rows, length, 0)):
        assert cuts.size(1) == rows and all(0 <= cut <= length for cut in cuts.flatten().tolist())
    if length > 1:
        assert any(0 < cut < length for cut in leak_check.few_cuts(rows, length, 0).flatten().tolist())


def test_where_chunks_end_is_cut() -> None:
    assert set(leak_check.landmarks(33)) == {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32}
    cut = set(leak_check.thorough_cuts(8, 33, 0).flatten().tolist())
    assert cut >= {1, 7, 8, 9, 15, 16, 17, 31, 32} and {0, 33} <= cut
    assert not torch.equal(leak_check.few_cuts(8, 256, 1), leak_check.few_cuts(8, 256, 2))


# --- in a training


class Late(leaking.Leak):
    """Begins to leak after some passes."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.passes = 0

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        self.passes += 1
        return super().forward(u, state) if self.passes > 60 else u * self.w


def configured(folder: Path, method: Callable[..., Any], **settings: Any) -> tiny_training.Config:
    """A run of a small real model with this method."""
    made = tiny_training.config(folder, **({"steps": 40, "validate_every": 10, "save_every": 20} | settings))
    made.model = functools.partial(model, depth=1, width=16, head_dim=8, temporal_mixing=method)
    return made


def test_a_leak_is_refused_before_the_first_step(tmp_path: Path) -> None:
    made = configured(tmp_path, functools.partial(leaking.LEAKS["next token"], strength=FAINT))
    with pytest.raises(RunError, match="the model leaks.*in training.*sees the future.*--allow-leak"):
        tiny_training.go(made, tmp_path / "run")
    assert not list((tmp_path / "run").glob("**/*.jsonl"))


def test_a_leak_that_is_allowed_is_stamped(tmp_path: Path) -> None:
    made = configured(tmp_path, leaking.LEAKS["next token"], steps=10)
    ended = trainer.run(made, tmp_path / "run", show=False, allow_leak=True)  # type: ignore[arg-type]
    assert ended.status == "finished" and ended.steps == 10 and "sees the future" in ended.alarm


def test_a_leak_that_begins_later_stops_the_training(tmp_path: Path) -> None:
    ended = tiny_training.go(configured(tmp_path, Late), tmp_path / "run")
    assert ended.status == "leaks" and ended.over and ended.steps < 40 and ended.steps % 10 == 0
    assert "sees the future" in ended.alarm
    again = tiny_training.go(configured(tmp_path, Late), tmp_path / "run")
    assert again == ended


def test_a_regular_text_is_worth_a_remark_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_training.Data, "compressed_bits", lambda self, split: 100.0)
    ended = tiny_training.go(configured(tmp_path, leaking.leak(torch.zeros_like), steps=10), tmp_path / "run")
    assert ended.status == "finished" and ended.alarm == ""
    assert "bits per byte" in ended.remark and "no leak was found" in ended.remark


# --- in the kit

BY_KIT = {
    "pairs, beyond 12 tokens": ("causal", "depth 1, length 13"),
    "chunks of 16, beyond 128 tokens": ("causal", "depth 1, length 129"),
    "from layer 7 on": ("causal", "depth 7, length 2"),
    "from the fourth row on": ("causal", "depth 1, length 2, batch 4"),
    "flattened batch, shifted": ("rows", "depth 1, length 2, batch 2"),
    "in training alone": ("causal", "depth 1, length 2, batch 1"),
}


@pytest.mark.parametrize("kind", BY_KIT)
def test_the_kit_finds_it(kind: str) -> None:
    property, case = BY_KIT[kind]
    (result,) = check(leaking.LEAKS[kind], settings={"strength": FAINT}, only=[property]).results
    assert result.status == "failed" and result.case.startswith(case), result


@pytest.mark.slow
@pytest.mark.parametrize("strength", [1.0, FAINT, 1e-9])
@pytest.mark.parametrize("kind", leaking.LEAKS)
def test_the_kit_finds_every_leak(kind: str, strength: float) -> None:
    assert not check(leaking.LEAKS[kind], settings={"strength": strength}, only=["causal", "rows"]).ok


class ChunksOfItsOwn(leaking.Leak):
    """Leaks within chunks that are longer than any sequence of the kit, unless they are made small."""

    def __init__(self, layer: Layer, chunk_size: int = 256) -> None:
        super().__init__(layer)
        self.chunk_size = chunk_size

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        if u.size(1) > self.chunk_size:
            u = u + leaking.chunked(self.chunk_size)(u)
        return u * self.w


def test_the_kit_makes_chunks_small() -> None:
    report = check(ChunksOfItsOwn, only=["causal", "settings"])
    assert report["causal"].status == "ok"
    assert report["settings"].status == "failed" and "with chunk_size = 2" in report["settings"].detail
