"""Values in Gin files: do they fit the annotation of what they are bound to, and how are they written back."""

from __future__ import annotations

import collections.abc
import contextlib
import difflib
import inspect
import math
import os
import re
import types
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from zoo.config.gin_files import Macro, Reference
from zoo.config.renamed import renamed_line

SEQUENCES = (collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
MAPPINGS = (dict, collections.abc.Mapping)
CONTINUED = re.compile(r"\\?\n[ \t]+")  # a statement that goes on in the next line
KEY = re.compile(r"[\w./%]+")


class Mismatch(Exception):
    """A value that does not fit."""


def coerce(value: Any, annotation: Any) -> Any:
    """`value` as the annotation `annotation` asks for it (an int may be a float, a list a tuple), or Mismatch."""
    while True:  # what only wraps another annotation
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):  # NewType
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            break
    origin, args = get_origin(annotation) or annotation, get_args(annotation)
    if origin in (Union, types.UnionType):
        return _union(value, args)
    if origin is Literal:
        return _keep(value, any(type(value) is type(each) and value == each for each in args))
    if origin in (collections.abc.Callable, type):
        return _keep(value, isinstance(value, Reference))
    if origin in (list, tuple, *SEQUENCES):
        return _sequence(value, origin, args)
    if origin in MAPPINGS:
        _keep(value, isinstance(value, dict))
        of_keys, of_values = args or (Any, Any)
        return {coerce(key, of_keys): coerce(each, of_values) for key, each in value.items()}
    return _scalar(value, origin)


def _scalar(value: Any, annotation: Any) -> Any:
    if annotation is None or annotation is type(None):
        return _keep(value, value is None)
    if annotation in (int, bool):  # True is no int here, and 1 no bool
        return _keep(value, type(value) is annotation)
    if annotation is float:
        _keep(value, type(value) in (int, float))
        try:
            return float(value)
        except OverflowError:
            raise Mismatch from None
    if annotation is inspect.Parameter.empty or annotation in (Any, object) or not isinstance(annotation, type):
        return value  # nothing is asked, or nothing that could be checked
    if issubclass(annotation, os.PathLike):
        return _keep(value, isinstance(value, str))
    if getattr(annotation, "_is_protocol", False):
        return _keep(value, isinstance(value, Reference))
    return _keep(value, isinstance(value, annotation))


def _keep(value: Any, fits: bool) -> Any:
    if not fits:
        raise Mismatch
    return value


def _union(value: Any, members: tuple[Any, ...]) -> Any:
    """The value as one member has it, preferring a member that leaves it as it is."""
    results = []
    for member in members:
        try:
            results.append(coerce(value, member))
        except Mismatch:
            continue
    if not results:
        raise Mismatch
    return next((each for each in results if render(each) == render(value)), results[0])


def _sequence(value: Any, kind: Any, args: tuple[Any, ...]) -> Any:
    _keep(value, isinstance(value, (list, tuple)))
    make = kind if kind in (list, tuple) else type(value)
    if kind is tuple and args and args[-1] is not Ellipsis:
        _keep(value, len(value) == len(args))
        return make(coerce(each, annotation) for each, annotation in zip(value, args, strict=True))
    annotation = args[0] if args else Any
    return make(coerce(each, annotation) for each in value)


def describe(annotation: Any) -> str:
    """An annotation in words."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation is inspect.Parameter.empty:
        return "anything"
    if annotation is type(None):
        return "None"
    if origin is Annotated:
        return describe(args[0])
    if origin in (Union, types.UnionType):
        return " or ".join(describe(member) for member in args)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, args)) if len(args) > 1 else repr(args[0])
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return f"a tuple, each {describe(args[0])}"
    if origin is collections.abc.Callable or annotation is collections.abc.Callable:
        return "a reference (@name)"
    return inspect.formatannotation(annotation) if not isinstance(annotation, str) else annotation


def rendered(values: Mapping[str, Any]) -> dict[str, str]:
    """The values that Gin has a notation for, in it."""
    texts = {}
    for key, value in values.items():
        with contextlib.suppress(TypeError):
            texts[key] = render(value)
    return texts


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What both know and have differently. A parameter that is new since, or gone, says nothing."""
    return [
        f"{key} was {before[key]} and is {now[key]}"
        for key in sorted(before)
        if now.get(key, before[key]) != before[key]
    ]


def shortened(text: str, length: int = 200) -> str:
    """A text for a sentence: what is very long loses its end."""
    return text if len(text) <= length else f"{text[:length]}…"


def bindings(text: str) -> list[str]:
    """The statements of a configuration that bind something, one line each, in order of their names of today."""
    lines = CONTINUED.sub(" ", text).splitlines()
    return sorted(renamed_line(line) for line in lines if line.strip() and not line.startswith("#"))


def parse_bindings(text: str) -> dict[str, str]:
    """The key and the value of every binding in a configuration, both as they are written."""
    parts = (line.partition(" = ") for line in bindings(text))
    return {key: value.strip() for key, equals, value in parts if equals and KEY.fullmatch(key)}


def changed_bindings(before: str, now: str, ignored: Collection[str] = (), restated: Collection[str] = ()) -> list[str]:
    """The bindings in which two configurations differ: "- key = value" of the first, "+ key = value" of the second.

    `restated` are bindings of the second that only repeat a default: they say nothing where the first did not bind them.
    """
    ignored = {*ignored, *(set(restated) - parse_bindings(before).keys())}
    old, new = ([line for line in bindings(text) if line.partition(" = ")[0] not in ignored] for text in (before, now))
    lines = difflib.unified_diff(old, new, n=0, lineterm="")
    return [
        f"  {line[0]} {line[1:]}" for line in lines if not line.startswith(("---", "+++", "@@")) and line[1:].strip()
    ]


def render(value: Any) -> str:
    """A value as Gin reads it back, exactly; TypeError for what Gin has no notation for."""
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise TypeError("Gin has no notation for nan")
        return "1e999" if value > 0 else "-1e999"
    if isinstance(value, list):
        return f"[{', '.join(map(render, value))}]"
    if isinstance(value, tuple):
        return f"({render(value[0])},)" if len(value) == 1 else f"({', '.join(map(render, value))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{render(key)}: {render(each)}" for key, each in value.items()) + "}"
    if value is None or isinstance(value, (bool, int, float, str, bytes, complex, Reference, Macro)):
        return repr(value)
    raise TypeError(f"Gin has no notation for {type(value).__name__}")
