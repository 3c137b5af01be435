"""A hash of a method's code that its prose does not change, so that a stored run is recognised after an edit of words.

The hash is of the syntax tree without docstrings; comments and layout are not in a tree. Stores of earlier versions have
the hash of the file's bytes: both are recognised.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator

from zoo.plugins.finder import MethodEntry
from zoo.plugins.resources import source_file

DIGITS = 16


def source_hashes(method: MethodEntry) -> tuple[str, ...]:
    """The hashes that recognise the file a method is written in, the one to be stored first; none where it is unreadable."""
    try:
        file = source_file(method)
        source = file.read_bytes() if file else None
    except OSError:
        return ()
    if source is None:
        return ()
    return tuple(dict.fromkeys((hash_of_tree(source), _digest(source))))


def source_hash(method: MethodEntry) -> str:
    """The hash to be stored with a run; empty where there is no file to be read."""
    return next(iter(source_hashes(method)), "")


def hash_of_tree(source: bytes) -> str:
    """The hash of a module's syntax tree without docstrings; of its bytes if it is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return _digest(source)
    return _digest(" ".join(_tokens(tree)).encode())


def _tokens(node: object) -> Iterator[str]:
    """The tree as text that is the same in every version of Python: fields that are empty are left out."""
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name, value in ast.iter_fields(node):
            if name == "body" and isinstance(value, list):
                value = _without_docstring(node, value)
            if value not in (None, []):
                yield name
                yield from _tokens(value)
        yield ")"
    elif isinstance(node, list):
        for each in node:
            yield from _tokens(each)
    else:
        yield repr(node)


def _without_docstring(owner: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    if not isinstance(owner, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not body:
        return body
    first = body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return body[1:] if is_text else body


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]
