"""tools/benchmarks/peers.py: on which terms models are compared; nothing is measured here."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from zoo.bench.timing import Measurement

ROOT = Path(__file__).parents[2]


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("peers", ROOT / "tools/benchmarks/peers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def terms(peers: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    """What a comparison is asked for."""
    asked: dict[str, Any] = {}

    def compare(arms: dict[str, Any], **given: Any) -> dict[str, Measurement]:
        asked.update(given, arms=set(arms))
        return {name: Measurement([1.0], 1.0) for name in arms}

    monkeypatch.setattr(peers, "compare", compare)
    monkeypatch.setattr(sys, "argv", ["peers.py", *arguments])
    peers.main()
    return asked


def test_equal_terms_are_equal(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = terms(peers, monkeypatch, "--equal", "--rounds", "1")
    assert (asked["threads"], asked["cpu"], list(asked["as_they_come"]), asked["rounds"]) == (1, True, [], 1)


def test_peers_as_they_come_lack_our_settings(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = terms(peers, monkeypatch, "--default", "--compiled")
    assert (asked["threads"], asked["cpu"]) == (2, False)
    assert set(asked["as_they_come"]) == asked["arms"] - {"zoo", "zoo, compiled", "GEMM"}
    assert "transformers Llama, compiled" in asked["as_they_come"]


def test_the_commands_of_the_page_are_understood(peers: ModuleType) -> None:
    page = (ROOT / "docs/performance.md").read_text("utf-8")
    commands = re.findall(r"^\| `tools/run python tools/benchmarks/peers\.py(.*?)` \|", page, re.MULTILINE)
    assert [vars(peers.parser().parse_args(shlex.split(each))) for each in commands]
    assert {"--equal", "--default"} <= {word for each in commands for word in each.split()}
