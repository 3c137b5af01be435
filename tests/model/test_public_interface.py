"""What stands directly in zoo/ is the public interface: its names are those of the table in docs/writing-a-method.md."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from helpers.random_models import random_model

from zoo.history import Block

ROOT = Path(__file__).parents[2]
FOR_USERS = {"__init__", "__main__", "autoload", "hub"}  # not for methods: docs/python.md, docs/hub.md
MODULES = sorted(f"zoo.{path.stem}" for path in (ROOT / "zoo").glob("*.py") if path.stem not in FOR_USERS)
TABLE = {
    module: set(re.findall(r"`(\w+)`", names))
    for module, names in re.findall(
        r"^\| `(zoo\.\w+)` \| (.*) \|$", (ROOT / "docs/writing-a-method.md").read_text("utf-8"), re.MULTILINE
    )
}
METHODS = [*(ROOT / "plugins").glob("*.py"), *(ROOT / "zoo/catalogue/scaffold").rglob("method.py.in")]


@pytest.mark.parametrize("module", MODULES)
def test_the_table_lists_what_a_module_offers(module: str) -> None:
    offered = importlib.import_module(module).__all__
    assert list(offered) == sorted(offered, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert TABLE[module] == set(offered)
    assert all(hasattr(importlib.import_module(module), name) for name in offered)


@pytest.mark.parametrize("path", METHODS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_our_methods_import_only_what_the_table_lists(path: Path) -> None:
    code = re.sub(r"\$(\w+)", r"\1", path.read_text("utf-8"))  # a template's placeholders
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zoo."):
            assert {alias.name for alias in node.names} <= TABLE[str(node.module)], node.module


def test_a_block_has_what_a_method_may_use_of_it() -> None:
    block = random_model(depth=1).layers[0]
    public = {name for name, value in vars(Block).items() if isinstance(value, property)}
    page = (ROOT / "docs/writing-a-method.md").read_text("utf-8")
    assert public == set(re.findall(r"`block\.(\w+)`", page)) and all(hasattr(block, name) for name in public)
