"""The settings of a method: the parameters of its factory after the layer."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

REQUIRED = inspect.Parameter.empty  # the default of a setting that has none


class Setting(NamedTuple):
    name: str
    annotation: Any
    default: Any  # REQUIRED if there is none


def settings_of(factory: Callable[..., Any]) -> list[Setting]:
    """What can be set on a method: its parameters after the layer."""
    parameters = list(inspect.signature(factory).parameters.values())[1:]
    return [Setting(p.name, resolve_annotation(p.annotation, factory), p.default) for p in parameters]


def resolve_annotation(annotation: Any, owner: Any) -> Any:
    """The type that an annotation written as a string means in the module of `owner`; the string itself if unknown."""
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, globalns=dict(vars(module)) if module else {})["it"]
    except Exception:  # a name that exists for type checkers only
        return annotation
