"""What a caller gave, as the interface asks for it, or a sentence that says what it should have been."""

from __future__ import annotations

import inspect
import numbers
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError, ZooError

Place = str | os.PathLike[str]


def place(given: Any, what: str) -> Path:
    """A file or folder; `what` it is of is said in the sentence."""
    if not isinstance(given, str | os.PathLike) or isinstance(named := os.fspath(given), bytes):
        raise ZooError(f"{what} is named by a text or a path, not by {given!r}")
    return Path(named)


def name(given: Any, what: str) -> str:
    """A text; `what` it names is said in the sentence."""
    if not isinstance(given, str):
        raise ZooError(f"{what} is named by a text, not by {given!r}")
    return given


def fitting(owner: str, function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings `given` of a function, each as its annotation asks for it; `owner` is its name in a sentence."""
    from zoo.plugins.settings import resolve_annotation

    known = inspect.signature(function).parameters
    return {
        name: fitted(f"{owner}.{name}", value, resolve_annotation(known[name].annotation, function))
        for name, value in given.items()
    }


def fitted(key: str, value: Any, annotation: Any) -> Any:
    """A value as an annotation asks for it; `key` is its name in a sentence."""
    from zoo.config.values import Mismatch, coerce, describe

    plain = value.item() if isinstance(value, numbers.Number) and hasattr(value, "item") else value  # of NumPy
    try:
        return coerce(plain, annotation)
    except (Mismatch, TypeError):  # the latter for NaN, which Gin has no notation for
        raise ConfigError(f"{key} must be {describe(annotation)}, not {value!r}") from None
