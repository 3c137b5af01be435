"""What a pass or a step makes is made where the model is and in its type: nothing relies on torch's defaults.

There is no GPU here to show it. What is made while a model is built may rely on them: the model is moved as a whole.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOATS = {
    "zeros",
    "ones",
    "empty",
    "full",
    "rand",
    "randn",
    "eye",
    "linspace",
    "logspace",
    "tensor",
    "as_tensor",
    "normal",
}
FACTORIES = FLOATS | {"arange", "randint", "randperm", "tril_indices", "triu_indices", "empty_strided"}
OF_A_MODULE = {"Parameter", "register_buffer"}  # what these are given moves with the module
ASKED = {("zoo/model/room.py", "meta")}  # it asks which device is the default
FILES = sorted(
    path
    for folder in ("zoo/kernels", "zoo/model", "zoo/training", "zoo/generation", "plugins")
    for path in (ROOT / folder).rglob("*.py")
) + sorted((ROOT / "zoo").glob("*.py"))


def functions(tree: ast.AST) -> Iterator[tuple[str, ast.Call, bool]]:
    """Every call with the function that it is in, and whether it makes something of a module's own."""

    def visit(node: ast.AST, inside: str, owned: bool) -> Iterator[tuple[str, ast.Call, bool]]:
        if isinstance(node, ast.FunctionDef):
            inside = node.name
        if isinstance(node, ast.Call):
            owned = owned or name_of(node).rpartition(".")[2] in OF_A_MODULE
            yield inside, node, owned
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside, owned)

    return visit(tree, "", False)


def name_of(call: ast.Call) -> str:
    return ast.unparse(call.func)


def building(tree: ast.AST) -> set[str]:
    """The functions that are called while a module is built, and at no other time: by constructors and by each other.

    So is what returns a parameter, or None.
    """
    calls: dict[str, set[str]] = {}
    for inside, call, owned in functions(tree):
        calls.setdefault(name_of(call).rpartition(".")[2], set()).add("__init__" if owned else inside)
    known = {"__init__"} | {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.returns
        and ast.unparse(node.returns).removesuffix(" | None").endswith("Parameter")
    }
    while more := {name for name, callers in calls.items() if callers <= known} - known:
        known |= more
    return known


def faults(text: str, file: str = "") -> list[str]:
    """Every tensor that is made on a default device, or in a default type, outside of building a module."""
    tree = ast.parse(text)
    built = building(tree)
    found = []
    for inside, call, owned in functions(tree):
        name = name_of(call).removeprefix("torch.")
        if name not in FACTORIES or name_of(call) == name or owned or inside in built or (file, inside) in ASKED:
            continue
        given = {keyword.arg for keyword in call.keywords}
        missing = {"device"} | ({"dtype"} if name in FLOATS else set())
        if "generator" in given or not missing - given:  # a generator has a device, and no other will do
            continue
        found.append(f"{file}:{call.lineno} {inside}: {ast.unparse(call)} lacks {', '.join(sorted(missing - given))}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_made_on_a_default_device_or_in_a_default_type(path: Path) -> None:
    assert faults(path.read_text("utf-8"), str(path.relative_to(ROOT))) == []


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ("torch.zeros(3)", "device, dtype"),
        ("torch.zeros(3, device=u.device)", "dtype"),
        ("torch.arange(3)", "device"),
        ("torch.tensor([1.0]).to(u)", "device, dtype"),
        ("torch.ones(3, dtype=u.dtype)", "device"),
        ("made()", "device, dtype"),
        ("torch.zeros(3, device=u.device, dtype=u.dtype)", None),
        ("u.new_zeros(3) + torch.ones_like(u)", None),
    ],
)
def test_a_fault_is_found(line: str, lacks: str | None) -> None:
    """Also in a function that a constructor calls, if a pass calls it too."""
    text = f"""
class Method(nn.Module):
    def __init__(self):
        self.table = made()
        self.weight = nn.Parameter(torch.zeros(3))
    def forward(self, u):
        return {line}
def made():
    return torch.empty(3)
"""
    assert [fault.rpartition(" lacks ")[2] for fault in faults(text)] == ([lacks] if lacks else [])
