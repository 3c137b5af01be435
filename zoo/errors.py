"""Errors that the user can mend: each is a sentence, shown without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["ZooError"]


class ZooError(Exception):
    """A sentence for the user."""


class ConfigError(ZooError):
    """A Gin file or binding that cannot be used."""


class SettingError(ConfigError):
    """A value out of range; whoever knows where the setting was bound puts that before the sentence."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}{message}")
        self.key, self.message = key, message

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.key, self.message)


def check_setting(key: str, value: object, fits: bool, limits: str) -> None:
    """Refuse the value of a setting such as "train.steps" unless it fits; `limits` says in words what would fit."""
    if not fits:
        raise SettingError(key, f" = {value!r} must be {limits}")


class PluginError(ZooError):
    """A method that was named and cannot be used."""


class DataError(ZooError):
    """A corpus or tokeniser that cannot be used."""


class CheckpointError(ZooError):
    """A checkpoint that cannot be written or read."""


class RunError(ZooError):
    """A run that cannot start, resume or go on."""


class RankError(ZooError):
    """Another process of the run that died, hangs or ended; `speaks` is true on the one rank that reports it."""

    def __init__(self, sentence: str, speaks: bool = True) -> None:
        super().__init__(sentence)
        self.speaks = speaks


def nearest(name: str, names: Iterable[str], count: int = 3) -> str:
    """The names that look like `name`, as " (nearest: …)" to end a sentence with; empty if none does."""
    plain = {known: _plain(known) for known in sorted(set(names))}
    close = difflib.get_close_matches(_plain(name), sorted(set(plain.values())), count)
    similar = [known for match in close for known in plain if plain[known] == match]
    return f" (nearest: {', '.join(similar[:count])})" if similar else ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
