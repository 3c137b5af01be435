"""Which plugins can be used, told quickly: what importing them showed is remembered until something changes.

Importing every plugin imports torch, which takes seconds. What is remembered serves the listing alone: whoever uses a
plugin imports it.
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

from zoo import plugins
from zoo.plugins import Found, Registry


class Seen(NamedTuple):
    """What importing and building a plugin showed."""

    problem: str | None
    adds: int | None  # parameters at size `base`


class State(NamedTuple):
    found: Found
    problem: str | None  # None: it can be used
    adds: int | None


def states(registry: Registry, fresh: bool = False) -> list[State]:
    """The state of every plugin; `fresh` imports them all, whatever is remembered."""
    evidence = _evidence(registry)
    remembered = {} if fresh else _recall(evidence)
    result, seen = [], {}
    for found in registry.found:
        key = f"{found.name} {found.source} {found.value}"
        if key not in remembered:
            with contextlib.redirect_stdout(sys.stderr):  # a plugin that prints does not print into the list
                remembered[key] = _see(found)
        seen[key] = remembered[key]
        result.append(State(found, registry.conflict(found.id) or seen[key].problem, seen[key].adds))
    _remember(evidence, seen)
    return result


def _see(found: Found) -> Seen:
    loaded = plugins.load(found)
    if loaded.error:
        return Seen(loaded.error, None)
    from zoo import cards, match

    try:
        base = cards.size("base")
        return Seen(None, match.parameters(base.build(loaded)) - match.parameters(base.build()))
    except Exception:  # it imports, but not at this size: zoo-plugins check tells more
        return Seen(None, None)


def _evidence(registry: Registry) -> str:
    """A digest of what decides whether plugins import: Python, what is installed, their code and the core's."""
    digest = hashlib.sha256(repr((sys.version, sys.prefix, registry.found)).encode())
    for entry in sys.path:  # installing or removing a distribution touches its folder
        digest.update(_stamp(entry or os.curdir))
    folders = {folder for found in registry.found for folder in plugins.packages(found)}
    for file in sorted(
        {*_code(folders), *_code({Path(__file__).parent}), *filter(None, map(plugins.origin, registry.found))}
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
