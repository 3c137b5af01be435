"""The mixers that compute in chunks conform with short ones, and hand their setting to the recurrence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.random_models import METHODS, factory, random_model, tokens

from zoo import scan
from zoo.extension import preset
from zoo.plugins.settings import settings_of
from zoo.testing import check

CHUNKED = [
    id
    for slot, id in METHODS
    if slot == "temporal_mixing" and any(setting.name == "chunk" for setting in settings_of(factory(slot, id)))
]
CHUNK = {"chunk": 4}


def test_these_compute_in_chunks() -> None:
    assert sorted(CHUNKED) == [
        "deltanet", "gated_deltanet", "gla", "griffin", "linear_attention", "mamba", "mamba2", "min_gru", "retention", "rg_lru",
    ]  # fmt: skip


@pytest.mark.parametrize("id", CHUNKED)
def test_the_recurrence_gets_the_chunk(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[Any] = []

    def noting(recurrence: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **settings: noted.append(settings["chunk"]) or recurrence(*given, **settings)

    module = sys.modules[factory("temporal_mixing", id).__module__]
    for name in scan.__all__:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, noting(getattr(scan, name)))
    with torch.no_grad():
        random_model(depth=1, temporal_mixing=preset(factory("temporal_mixing", id), chunk=5))(tokens(2, 6))
    assert noted == [5]


@pytest.mark.parametrize("id", CHUNKED)
def test_conforms_with_chunks_of_4(id: str) -> None:
    check(id, settings=CHUNK, only=["types", "layout", "documents"]).verify()


@pytest.mark.slow
@pytest.mark.parametrize("id", CHUNKED)
def test_conforms_in_what_takes_longer_with_chunks_of_4(id: str) -> None:
    check(id, settings=CHUNK, only=["causal", "rows", "cached", "derivative", "checkpointed"]).verify()
