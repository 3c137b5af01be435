"""Import one method; whatever goes wrong becomes part of the answer."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import keyword
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from zoo.errors import PluginError
from zoo.plugins import api_version
from zoo.plugins.finder import MethodEntry
from zoo.plugins.resources import source_files
from zoo.system.global_state import contained


class LoadedMethod(NamedTuple):
    """A plugin after its import: the factory, or why there is none."""

    entry: MethodEntry
    factory: Callable[..., Any] | None
    error: str | None = None
    traceback: str | None = None
    changed: tuple[str, ...] = ()  # what its import changed in the process, and had put back


def load_method(entry: MethodEntry) -> LoadedMethod:
    """Import one plugin. Whatever it does while it is imported, short of Ctrl-C, ends up in the answer."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", entry.id) or keyword.iskeyword(entry.id):
        return LoadedMethod(entry, None, f"{entry.id!r} cannot be an id: use letters, digits and underscores")
    if problem := api_version.mismatch(source_files(entry)):
        return LoadedMethod(entry, None, problem)
    try:
        factory = _import(entry.value)
        problem = _problem(factory)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # even sys.exit() while importing breaks this plugin alone
        return LoadedMethod(entry, None, _sentence(error), traceback.format_exc())
    if problem:
        return LoadedMethod(entry, None, f"{entry.value} {problem}")
    return LoadedMethod(entry, factory, changed=_CHANGED.get(_module(entry.value), ()))


def unbuildable(who: str, error: Exception) -> PluginError:
    """What to raise where a factory raised an error of its own while it built an extension."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return PluginError(f"{who} cannot be built: {type(error).__name__}: {error} ({frame.filename}:{frame.lineno})")


_CHANGED: dict[str, tuple[str, ...]] = {}  # module → what its import changed: only the first import runs its code


def _module(value: str) -> str:
    return value.partition("[")[0].partition(":")[0].strip()


def _import(value: str) -> Any:
    name = _module(value)
    if name not in sys.modules:
        import numpy  # noqa: F401  # what these change is not the plugin's doing

        import zoo.extension  # noqa: F401

        with contained() as changed, contextlib.redirect_stdout(sys.stderr):
            importlib.import_module(name)
        _CHANGED[name] = tuple(changed)
    target: Any = importlib.import_module(name)
    for attribute in filter(None, value.partition("[")[0].partition(":")[2].strip().split(".")):
        target = getattr(target, attribute)
    return target


def _problem(factory: Any) -> str | None:
    """What keeps `factory` from being called as factory(layer, setting=value, …), if anything does."""
    if not callable(factory):
        return f"is not callable: it is {type(factory).__name__}"
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        return "has no signature that Python can tell"
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return f"takes {parameter}, which would swallow misspelt settings: name each setting"
    if not parameters or parameters[0].kind == inspect.Parameter.KEYWORD_ONLY:
        return "takes no positional parameter for the layer: write (layer, …settings)"
    for parameter in parameters[1:]:
        if parameter.kind == parameter.POSITIONAL_ONLY:
            return f"takes the setting {parameter.name} by position only: it could never be set by name"
    return None


def _sentence(error: BaseException) -> str:
    return traceback.format_exception_only(type(error), error)[-1].strip()
