"""The method under examination, and models with it: random weights, random method parameters, float64."""

from __future__ import annotations

import contextlib
import random
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from zoo import history
from zoo.errors import PluginError, nearest
from zoo.extension import Extension, Layer, called, slot_of
from zoo.model.build import model
from zoo.model.language_model import LanguageModel
from zoo.plugins.registry import installed
from zoo.slots import SLOTS
from zoo.system.global_state import contained
from zoo.testing.cases import MAX_LENGTH, VOCAB, Case

Factory = Callable[..., Extension]


@dataclass(frozen=True)
class Subject:
    """A method under test, alone or with others in the other slots."""

    id: str
    slot: str
    factory: Factory
    source: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Factory] = field(default_factory=dict)  # in the other slots
    changed: tuple[str, ...] = ()  # by its import, in the whole process

    def build(self, case: Case, *, fresh: bool = False, seed: int = 0) -> LanguageModel:
        """A model with the method; unless `fresh`, every parameter of it is random."""
        settings = {**self.settings, **dict(case.settings)}
        slots: dict[str, Any] = {**self.others, self.slot: called(self.id, self.factory, **settings)}
        return assemble(case, slots, fresh=fresh, seed=seed)

    def extensions(self, built: LanguageModel) -> list[Extension]:
        """The method in each layer."""
        return built.parts(self.slot)

    @cached_property
    def declared(self) -> Extension:
        """The method as built for the upper of two layers, to ask what it declares."""
        return self.extensions(self.build(Case(), fresh=True))[-1]

    @property
    def starts_as(self) -> str | None:
        """A preset's declaration counts for the preset; else the extension's own does."""
        return getattr(self.factory, "starts_as", None if hasattr(self.factory, "fixed") else self.declared.starts_as)


def subject(method: str | Factory, slot: str | None = None, settings: Mapping[str, Any] | None = None) -> Subject:
    """The method that an id names (ID or SLOT.ID), or a factory is."""
    if isinstance(method, str):
        registry = installed()
        loaded = registry.named(method, slot)
        assert loaded.factory is not None
        entry = loaded.entry
        rest = [part for part in registry.parts(entry.id) if part.entry.slot != entry.slot]
        return Subject(
            entry.id,
            entry.slot,
            loaded.factory,
            entry.source,
            settings or {},
            others={part.entry.slot: called(entry.id, part.factory) for part in rest if part.factory is not None},
            changed=loaded.changed,
        )
    slot = slot or _slot_of(method, settings or {})
    if slot not in SLOTS:
        raise PluginError(f"there is no slot {slot}{nearest(slot, SLOTS)}; there are {', '.join(SLOTS)}")
    name = getattr(method, "__name__", type(method).__name__)
    return Subject(name, slot, method, getattr(method, "__module__", "?"), settings or {})


def _slot_of(factory: Factory, settings: Mapping[str, Any]) -> str:
    layer = Layer(
        index=0,
        num_layers=2,
        width=16,
        ffn_dim=32,
        num_heads=2,
        num_kv_heads=2,
        head_dim=8,
        max_length=MAX_LENGTH,
        parallel=False,
        norm_eps=1e-5,
        vocab_size=VOCAB,
    )
    with contained():
        built = factory(layer, **settings)
    slot = slot_of(built)
    if slot is None:
        raise PluginError(f"{factory!r} built a {type(built).__name__}, which is none of {', '.join(SLOTS)}")
    return slot


# --- models and inputs


def assemble(case: Case, slots: Mapping[str, Factory], *, fresh: bool = False, seed: int = 0) -> LanguageModel:
    """A model of this size with these methods."""
    built = model(
        VOCAB, max(MAX_LENGTH, case.length), depth=case.depth, width=case.width, head_dim=case.head_dim, num_heads=case.heads,
        num_kv_heads=case.kv_heads, ffn_dim=24, parallel=case.parallel, dropout=case.dropout, qk_norm=case.qk_norm,
        init_std=0.3, seed=seed, **slots,
    )  # fmt: skip
    if not fresh:
        randomise(built, seed)
    return built.to(getattr(torch, case.dtype)).train(case.training)


@torch.no_grad()
def randomise(built: torch.nn.Module, seed: int) -> None:
    """Move every parameter away from where it starts, where mistakes hide behind zeros and ones."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in built.parameters():
        parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))


def tokens(case: Case, seed: int = 0) -> Tensor:
    return torch.randint(VOCAB, (case.batch, case.length), generator=torch.Generator().manual_seed(seed))


@contextlib.contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """With random states that start at `seed`; what they were before comes back."""
    before = random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(before)


def run(built: LanguageModel, inputs: Tensor, seed: int = 0) -> Tensor:
    """The logits (B, T, V), with random states that start at `seed`; differentiable."""
    with seeded(seed):
        logits = built(inputs)
    assert isinstance(logits, Tensor)
    return logits


def look(built: LanguageModel, inputs: Tensor, seed: int = 0) -> Tensor:
    """The same, not differentiable."""
    with torch.no_grad():
        return run(built, inputs, seed)


def direction(like: Tensor, seed: int = 1) -> Tensor:
    """A fixed random tensor."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.dtype)


# --- comparing

EXACT = 1e-9  # what rounding may do to float64 on another way to the same result


def difference(a: Tensor, b: Tensor) -> float:
    """The largest difference, as a part of the largest number (or of 1); infinite where something is not finite."""
    if a.shape != b.shape:
        return float("inf")
    a, b = a.detach().double(), b.detach().double()
    if not (a.isfinite().all() and b.isfinite().all()):
        return float("inf")
    if not a.numel():
        return 0.0
    return float((a - b).abs().max()) / max(1.0, float(b.abs().max()))


def where(error: BaseException) -> str:
    """The innermost line of an error's traceback that is not torch's, nor the history's own check."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [f for f in frames if "/torch/" not in f.filename and f.filename != history.__file__] or list(frames)
    return f"{outside[-1].filename}:{outside[-1].lineno}"
