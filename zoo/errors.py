"""What can go wrong in a way that is the user's to mend: each error is a sentence, shown without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ZooError(Exception):
    """A sentence for the user."""


class ConfigError(ZooError):
    """A Gin file or binding that cannot be used."""


class PluginError(ZooError):
    """A method that was named and cannot be used."""


class DataError(ZooError):
    """A corpus or tokeniser that cannot be used."""


class CheckpointError(ZooError):
    """A checkpoint that cannot be written or read."""


class RunError(ZooError):
    """A run that cannot start, resume or go on."""


def nearest(name: str, names: Iterable[str], count: int = 3) -> str:
    """The names that look like `name`, as " (nearest: …)" to end a sentence with; empty if none does."""
    plain = {known: _plain(known) for known in sorted(set(names))}
    close = difflib.get_close_matches(_plain(name), sorted(set(plain.values())), count)
    found = [known for match in close for known in plain if plain[known] == match]
    return f" (nearest: {', '.join(found[:count])})" if found else ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
