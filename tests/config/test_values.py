"""Configurations as text, read back and compared."""

from __future__ import annotations

from zoo.config.load import load_config
from zoo.config.values import changed_bindings, parse_bindings, render

TEXT = """# A comment.
model.depth = 6

model.residual = @residual.v1_m3
train.betas = (0.9,
    0.95)
data.corpus = "a = b"
"""


def test_bindings_are_read_as_they_are_written() -> None:
    assert parse_bindings(TEXT) == {
        "model.depth": "6",
        "model.residual": "@residual.v1_m3",
        "train.betas": "(0.9, 0.95)",
        "data.corpus": '"a = b"',
    }
    assert parse_bindings("include 'a.gin'\nnot a key = 1\n= 2\n") == {}


def test_a_configuration_is_read_back_whole() -> None:
    loaded = load_config(["skip_vector"])
    assert parse_bindings(loaded.text) == {key: render(value) for key, value in loaded.values.items()}


def test_differences_leave_out_what_is_ignored() -> None:
    before, now = "a.x = 1\na.y = 2\n", "a.x = 3\na.y = 4\na.z = 5\n"
    assert changed_bindings(before, now) == ["  - a.x = 1", "  - a.y = 2", "  + a.x = 3", "  + a.y = 4", "  + a.z = 5"]
    assert changed_bindings(before, now, ("a.x", "a.z")) == ["  - a.y = 2", "  + a.y = 4"]
    assert changed_bindings(before, now, ("a.x", "a.y", "a.z")) == []


def test_a_binding_that_repeats_a_default_is_no_change() -> None:
    before, now = "a.x = 1\n", "a.x = 1\na.start = 1.0\n"
    assert changed_bindings(before, now) == ["  + a.start = 1.0"]
    assert changed_bindings(before, now, restated={"a.start"}) == []
    assert changed_bindings("a.start = 2.0\n", "a.start = 1.0\n", restated={"a.start"})  # it was bound before
