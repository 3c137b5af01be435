"""Families of methods, and a phrase for each method, for a list of them. Imports no plugin.

A family is the methods of one module; the first line of the module's docstring says what they have in common.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from zoo.catalogue.cards import card_of
from zoo.plugins.finder import MethodEntry
from zoo.plugins.resources import source_file


class Family(NamedTuple):
    """Methods of one module."""

    name: str  # short, to filter by
    title: str


def module(entry: MethodEntry) -> str:
    """The module that an entry point names."""
    return entry.value.partition("[")[0].partition(":")[0].strip()


def title(entry: MethodEntry) -> str:
    """The first line of the docstring of the method's module; the module's name where there is none."""
    return _first_line(_parsed(source_file(entry))) or module(entry)


def families(methods: tuple[MethodEntry, ...]) -> Mapping[MethodEntry, Family]:
    """The family of every method: named after its module, or after the distribution that has no other module."""
    modules: dict[str, set[str]] = {}
    for entry in methods:
        modules.setdefault(entry.distribution, set()).add(module(entry))
    return {
        entry: Family(
            entry.distribution if len(modules[entry.distribution]) == 1 else module(entry).rpartition(".")[2],
            title(entry),
        )
        for entry in methods
    }


def phrase(entry: MethodEntry) -> str:
    """What a method does, in a few words: from its card, else the first line of its docstring, else nothing."""
    card = card_of(entry)
    if card and card.phrase:
        return card.phrase
    attribute = entry.value.partition("[")[0].partition(":")[2].strip()
    tree = _parsed(source_file(entry))
    for node in tree.body if tree else ():
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == attribute:
            return _first_line(node)
    return ""


@cache
def _parsed(path: Path | None) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes()) if path and path.suffix == ".py" else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # a broken plugin is reported elsewhere
        return None


def _first_line(node: ast.Module | ast.ClassDef | ast.FunctionDef | None) -> str:
    text = ast.get_docstring(node) if node else None
    return text.splitlines()[0].rstrip(".") if text else ""
