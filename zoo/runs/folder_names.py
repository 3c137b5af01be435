"""The default folder of a run: named after its files and --set bindings, found again by its configuration's hash."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.config.configuration import Config

SEPARATOR = "-"  # where TensorBoard breaks a long name
HASH = 8  # digits of the configuration's hash in a name
VALUE = 20  # characters of a value in a name
BINDINGS = 48  # characters of all bindings
UNSAFE = re.compile(r"[^\w.+-]+", re.ASCII)  # what a file system, a shell or TensorBoard could take amiss


def default_folder(runs: Path, config: Config) -> Path:
    """The folder of this configuration in `runs`: one that is there, whatever bindings its name shows, else a new one."""
    new = default_name(config)
    ending = f"-{config.fingerprint()[:HASH]}"
    own = re.compile(rf"{re.escape(_files(config))}(-.*)?{ending}")
    there = sorted(path.name for path in runs.glob(f"*{ending}") if own.fullmatch(path.name) and path.is_dir())
    return runs / (there[0] if there and new not in there else new)


def default_name(config: Config) -> str:
    """A name for this configuration and no other: what was given, shortened, and the hash of everything."""
    return SEPARATOR.join([_files(config), *_bindings(config), config.fingerprint()[:HASH]])


def _files(config: Config) -> str:
    return "+".join(path.stem for path in config.given) or "baseline"


def _bindings(config: Config) -> list[str]:
    """Every --set binding as `lr=0.01`, until there is no more room; how many more there are."""
    keys = sorted(key for key, place in config.places.items() if place.startswith("--set "))
    shown = [f"{name}={_value(config.values[key])}" for key, name in zip(keys, _short(keys), strict=True)]
    fitting: list[str] = []
    for number, binding in enumerate(shown):
        if len(SEPARATOR.join([*fitting, binding])) > BINDINGS:
            return [*fitting, f"{len(shown) - number}_more"]
        fitting.append(binding)
    return fitting


def _short(keys: Iterable[str]) -> list[str]:
    """The last part of each key, the whole key where that is ambiguous."""
    keys = list(keys)
    last = [key.rpartition(".")[2] for key in keys]
    return [name if last.count(name) == 1 else key for key, name in zip(keys, last, strict=True)]


def _value(value: Any) -> str:
    """A value without what is unsafe in a name; of a path, its last part."""
    from zoo.config.values import render

    text = PurePath(value).name if isinstance(value, str) else render(value).lstrip("@")
    return UNSAFE.sub("_", text).strip("_")[:VALUE]
