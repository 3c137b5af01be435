"""Whether a plugin was written for this zoo: what it declares against `zoo.API_VERSION`.

A plugin declares it in the module of its entry point, or in a package around that, written out: `ZOO_API = (1, 0)`. It
is read without importing the plugin: one that was written for another interface may not survive its import.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from zoo import API_VERSION

DECLARATION = "ZOO_API"


def mismatch(files: Iterable[Path]) -> str | None:
    """Why a plugin with these source files cannot be used here; None if it can, or declares nothing."""
    declared = next(filter(None, map(_declared, files)), None)
    if declared is None:
        return None
    if not (isinstance(declared, tuple) and len(declared) == 2 and all(type(number) is int for number in declared)):
        return f"{DECLARATION} = {declared!r} is no version: write it like {DECLARATION} = {API_VERSION}"
    if declared[0] == API_VERSION[0] and declared[1] <= API_VERSION[1]:
        return None
    theirs, ours = (".".join(map(str, version)) for version in (declared, API_VERSION))
    other = "a newer zoo" if declared > API_VERSION else "a newer version of the plugin"
    return f"written for API {theirs}, this is {ours}: install {other}"


def _declared(file: Path) -> object:
    """The value of ZOO_API at the top level of a source file; None if there is none, or none that can be read."""
    try:
        statements = ast.parse(file.read_bytes()).body
    except (OSError, ValueError, SyntaxError):  # importing it will tell
        return None
    for statement in statements:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == DECLARATION for target in targets):
            try:
                return ast.literal_eval(value)
            except ValueError:
                return "something computed"
    return None
