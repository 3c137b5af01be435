"""Suggestions in error messages."""

from __future__ import annotations

from zoo.errors import nearest


def test_nearest_does_not_mind_case_and_dashes() -> None:
    assert nearest("Sizes-Tiny", ["sizes_tiny", "else"]) == " (nearest: sizes_tiny)"
    assert nearest("-a-", ["_a_"]) == " (nearest: _a_)"
    assert nearest("xyz", ["sizes_tiny"]) == ""
