"""Find the methods that installed distributions declare as entry points, from their metadata alone."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zoo.slots import GROUPS, SLOTS


class MethodEntry(NamedTuple):
    """An entry point as its distribution declares it; nothing has been imported."""

    slot: str
    id: str
    value: str  # "package.module:attribute"
    distribution: str
    version: str

    @property
    def name(self) -> str:
        """How Gin files call it."""
        return f"{self.slot}.{self.id}"

    @property
    def source(self) -> str:
        return f"{self.distribution} {self.version}"


def find_methods() -> list[MethodEntry]:
    """Every method that an installed distribution declares, sorted by slot and id."""
    methods: list[MethodEntry] = []
    seen: set[str] = set()
    for name, entries, _ in _declared():
        # The same project twice on sys.path (egg-info of a checkout, dist-info of its install): the first counts.
        if name not in seen:
            seen.add(name)
            methods += entries
    return sorted(set(methods), key=lambda method: (SLOTS.index(method.slot), method.id, method.source))


def _declared() -> Iterator[tuple[str, list[MethodEntry], Path]]:
    """Each distribution with methods: its normalised name, the methods, and the folder that it is in."""
    for distribution in importlib.metadata.distributions():
        try:
            entries = [entry for entry in distribution.entry_points if entry.group in GROUPS]
            if not entries:
                continue
            name, version = distribution.metadata["Name"] or "unnamed", distribution.metadata["Version"] or "?"
            folder = Path(str(distribution.locate_file("")))
        except Exception:  # one mangled metadata folder is not the others' fault
            continue
        methods = [MethodEntry(GROUPS[entry.group], entry.name, entry.value, name, version) for entry in entries]
        yield re.sub(r"[-_.]+", "-", name).lower(), methods, folder


def shadowed() -> list[str]:
    """A sentence for each distribution whose methods are hidden by other ones of a distribution of the same name."""
    first: dict[str, tuple[set[tuple[str, str, str]], Path]] = {}
    sentences = []
    for name, methods, folder in _declared():
        offers = {(method.slot, method.id, method.value) for method in methods}
        counts, where = first.setdefault(name, (offers, folder))
        if hidden := offers - counts:
            sentences.append(
                f"there are two distributions called {name}: that in {where} counts and hides {len(hidden)} methods of"
                f" that in {folder}; uninstall one"
            )
    return list(dict.fromkeys(sentences))
