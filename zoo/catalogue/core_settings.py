"""The core's settings, each with its type, default and meaning, read from the core's source files.

What a setting means is in the docstring of its configurable, one line per setting: `name: meaning`, or
`name (limits): meaning`, continued on indented lines.

The files are parsed, not imported: to import the model is to import torch, which takes longer than anyone wants to wait
for a list.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from zoo.config.gin_bridge import CONFIGURABLES
from zoo.config.gin_files import GinReader
from zoo.config.values import render
from zoo.errors import ConfigError
from zoo.plugins.resources import project_gin_folders

EXPLAINED = re.compile(r"^(\w+)(?: \(([^)]+)\))?: (.+(?:\n +.+)*)", re.MULTILINE)


class Entry(NamedTuple):
    """One setting, in words."""

    key: str  # as Gin files and --set have it: train.warmup
    kind: str
    limits: str  # what the values are limited to; empty: by the type alone
    default: str  # in Gin's notation
    meaning: str

    @property
    def fits(self) -> str:
        """Type and limits together."""
        return f"{self.kind}, {self.limits}" if self.limits else self.kind


class Group(NamedTuple):
    """The settings of one configurable, or of one method."""

    name: str
    phrase: str
    entries: tuple[Entry, ...]


class Explanation(NamedTuple):
    """What a docstring says of one setting."""

    limits: str
    meaning: str


def explained(docstring: str) -> dict[str, Explanation]:
    """What a docstring says of each setting."""
    lines = EXPLAINED.findall(inspect.cleandoc(docstring))
    return {name: Explanation(limits, " ".join(meaning.split())) for name, limits, meaning in lines}


@functools.cache
def core() -> tuple[Group, ...]:
    """The core's configurables, each with its settings. A default is that of a run without any Gin file."""
    bound = _bound()
    return tuple(group for module in CONFIGURABLES for group in _groups(_tree(module), bound))


@functools.cache
def _tree(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _bound() -> dict[str, str]:
    """What defaults.gin binds, in Gin's notation."""
    for folder in project_gin_folders():
        statements = GinReader([folder]).read_file(folder / "defaults.gin", "defaults")
        return {statement.key: render(statement.value) for statement in statements}
    raise ConfigError("this installation lacks its Gin files (defaults.gin): install it again")


def _groups(tree: ast.Module, bound: Mapping[str, str]) -> Iterator[Group]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and (name := _registered(node)):
            docstring = ast.get_docstring(node) or ""
            explanations = explained(docstring)
            entries = []
            for setting, annotation, default in _settings(node):
                key, explanation = f"{name}.{setting}", explanations.get(setting, Explanation("", ""))
                entries.append(
                    Entry(
                        key=key,
                        kind=_words(annotation, tree),
                        limits=explanation.limits,
                        default=bound.get(key, render(ast.literal_eval(default))),
                        meaning=explanation.meaning,
                    )
                )
            yield Group(name, " ".join(docstring.partition("\n\n")[0].split()).rstrip("."), tuple(entries))


def _registered(node: ast.FunctionDef | ast.ClassDef) -> str | None:
    """The name under which @gin.register makes a function or class known."""
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(func=ast.Attribute(value=ast.Name("gin"), attr="register"), args=[ast.Constant(str(name))]):
                return name
    return None


def _settings(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """Name, annotation and default of a function's parameters, or of a dataclass's fields, that have a default."""
    if isinstance(node, ast.ClassDef):
        for line in node.body:
            match line:
                case ast.AnnAssign(target=ast.Name(name), annotation=annotation, value=ast.expr() as default):
                    yield name, annotation, default
        return
    given = node.args
    by_position = given.args[len(given.args) - len(given.defaults) :]
    pairs = [*zip(by_position, given.defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    for argument, value in pairs:
        if value is not None and argument.annotation is not None:
            yield argument.arg, argument.annotation, value


def _words(annotation: ast.expr, tree: ast.Module) -> str:
    """An annotation of this module in words, as `zoo.config.values.describe` has it for a type."""
    words = functools.partial(_words, tree=tree)
    match annotation:
        case ast.Name(name):
            return _alias_in_words(name, tree) or name
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return f"{words(left)} or {words(right)}"
        case ast.Subscript(value=ast.Name("Literal"), slice=choices):
            return "one of " + ast.unparse(choices).strip("()")
        case ast.Subscript(value=ast.Name("Callable")):
            return "a reference (@name)"
        case ast.Subscript(value=ast.Name("tuple"), slice=ast.Tuple(elts=[each, ast.Constant(value)])) if value is ...:
            return f"a tuple, each {words(each)}"
    return ast.unparse(annotation)


def _alias_in_words(name: str, tree: ast.Module) -> str | None:
    """The type that a name stands for, assigned in this module or imported from another one of the core; None: neither."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(target)], value=value) if target == name:
                return _words(value, tree)
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("zoo."):
                if any(alias.name == name for alias in names):
                    return _alias_in_words(name, _tree(module))
    return None
