"""Settings that had another name once: what was written under it still counts."""

from __future__ import annotations

from collections.abc import Iterable

from zoo.config.gin_files import Statement

RENAMED = {"train.trackers": "records.writers"}  # the former name → that of today


def renamed(statements: Iterable[Statement]) -> tuple[list[Statement], list[str]]:
    """The statements under the names of today, and a warning for each that has a former one."""
    current, warnings = [], []
    for statement in statements:
        if name := RENAMED.get(statement.key):
            warnings.append(f"{statement.where}: {statement.key} is called {name} now")
            selector, _, parameter = name.rpartition(".")
            statement = statement._replace(selector=selector, parameter=parameter)
        current.append(statement)
    return current, warnings


def renamed_line(binding: str) -> str:
    """One line of a configuration, `key = value`, under the name of today."""
    key, equals, value = binding.partition(" = ")
    return f"{RENAMED.get(key, key)}{equals}{value}"
