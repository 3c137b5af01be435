"""What a run writes down of where it was made."""

from __future__ import annotations

import pytest

from zoo.runs.provenance import machine
from zoo.runs.run_folder import differences


def test_libraries_that_were_preloaded_are_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name: where they are says something of the user, and nothing of the run."""
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    before = machine()
    assert before["preloaded"] == []
    monkeypatch.setenv("LD_PRELOAD", "/home/me/libone.so:/opt/two.so three.so")
    assert machine()["preloaded"] == ["libone.so", "two.so", "three.so"]
    (changed,) = differences(before, machine())
    assert changed == "since this run began, preloaded changed from [] to ['libone.so', 'two.so', 'three.so']"
