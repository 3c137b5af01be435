"""Which plugins can be used, remembered from when they were last imported, until something changes.

Importing every plugin imports torch, which takes seconds, and may hang or crash: it is done in another process. What is
remembered serves the listing alone: whoever uses a plugin imports it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zoo.plugins.finder import MethodEntry
from zoo.plugins.import_process import looks
from zoo.plugins.loader import load_method
from zoo.plugins.registry import Registry
from zoo.plugins.resources import package_folders, source_file


class Seen(NamedTuple):
    """What importing and building a plugin showed."""

    problem: str | None
    adds: int | None  # parameters at size `base`


class PluginStatus(NamedTuple):
    entry: MethodEntry
    problem: str | None  # None: it can be used
    adds: int | None


def plugin_statuses(registry: Registry, fresh: bool = False) -> list[PluginStatus]:
    """The state of every plugin; `fresh` imports them all, whatever is remembered."""
    evidence = _evidence(registry)
    remembered = {} if fresh else _recall(evidence)
    new = [entry for entry in registry.entries if _key(entry) not in remembered]
    for entry, looked in looks(new, _see, lambda problem: Seen(problem, None)):
        remembered[_key(entry)] = looked
    seen = {_key(entry): remembered[_key(entry)] for entry in registry.entries}
    _remember(evidence, seen)
    return [
        PluginStatus(entry, registry.conflict(entry.id) or seen[_key(entry)].problem, seen[_key(entry)].adds)
        for entry in registry.entries
    ]


def sound(registry: Registry) -> tuple[Registry, list[str]]:
    """The methods that can be imported, and a line for each other one: nothing is imported in this process."""
    bad = {state.entry: state.problem for state in plugin_statuses(registry) if state.problem}
    sentences = [f"{entry.name} of {entry.source} is broken: {str(why).splitlines()[0]}" for entry, why in bad.items()]
    return Registry(entry for entry in registry.entries if entry not in bad), sentences


def _key(entry: MethodEntry) -> str:
    return f"{entry.name} {entry.source} {entry.value}"


def _see(entry: MethodEntry) -> Seen:
    loaded = load_method(entry)
    if loaded.error:
        return Seen(loaded.error, None)
    from zoo.catalogue.sizes import size
    from zoo.counting.flops import count_parameters

    try:
        base = size("base")
        return Seen(None, count_parameters(base.build(loaded)) - count_parameters(base.build()))
    except Exception:  # it imports, but not at this size: zoo-plugins check tells more
        return Seen(None, None)


def _evidence(registry: Registry) -> str:
    """A digest of what decides whether plugins import: Python, what is installed, their code and the core's."""
    digest = hashlib.sha256(repr((sys.version, sys.prefix, registry.entries)).encode())
    for entry in sys.path:  # installing or removing a distribution touches its folder
        digest.update(_stamp(entry or os.curdir))
    folders = {folder for entry in registry.entries for folder in package_folders(entry)}
    for file in sorted(
        {*_code(folders), *_code({Path(__file__).parents[1]}), *filter(None, map(source_file, registry.entries))}
    ):
        digest.update(_stamp(file))
    return digest.hexdigest()


def _code(folders: set[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from folder.rglob("*.py")


def _stamp(path: str | Path) -> bytes:
    try:
        stat = os.stat(path)
    except OSError:
        return b""
    return repr((str(path), stat.st_mtime_ns, stat.st_size)).encode()


def _memory() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache, "zoo", f"plugins-{hashlib.sha256(sys.prefix.encode()).hexdigest()[:12]}.json")


def _recall(evidence: str) -> dict[str, Seen]:
    try:
        memory = json.loads(_memory().read_text("utf-8"))
        seen = memory["seen"] if memory["evidence"] == evidence else {}
        return {
            str(key): Seen(None if problem is None else str(problem), None if adds is None else int(adds))
            for key, (problem, adds) in seen.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # none yet, or not ours
        return {}


def _remember(evidence: str, seen: dict[str, Seen]) -> None:
    text = json.dumps({"evidence": evidence, "seen": seen}, indent=1)
    memory = _memory()
    with contextlib.suppress(OSError):  # a home that cannot be written costs time, nothing else
        if memory.is_file() and memory.read_text("utf-8") == text:
            return
        memory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=memory.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, memory)
