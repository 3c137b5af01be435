"""A run's configuration: the value of every setting, checked, and what is built from them."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gin
import gin.config

from zoo.config.gin_bridge import core_configurables, is_active, operative_bindings, overridden, unwrapped_error
from zoo.config.recipe import Derivation
from zoo.config.values import render, rendered
from zoo.errors import ConfigError, SettingError, nearest
from zoo.plugins.finder import MethodEntry
from zoo.plugins.settings import REQUIRED
from zoo.slots import SLOTS

HEADER = "# The complete configuration of a run: give this file to --gin to run it again.\n"
OF_BENCHES = ("suite.", "ladder.")


@dataclass(frozen=True)
class Config:
    """A configuration that passed every check. It holds plain values, no Gin objects: it can be pickled."""

    files: tuple[tuple[Path, str], ...]  # everything that was read, includes and defaults too, in order, with its text
    given: tuple[Path, ...]  # the files that were asked for
    bindings: tuple[str, ...]
    values: Mapping[str, Any]  # "model.depth" → its value, for all that was bound
    defaults: Mapping[str, Any]  # … → its default, for all that was not
    restated: frozenset[str]  # those of the values that are bound to their own defaults
    places: Mapping[str, str]  # "model.depth" → where it was bound; for what defaults.gin bound, nothing
    plugins: tuple[MethodEntry, ...]  # the methods in the slots
    warnings: tuple[str, ...]
    recipe: tuple[Derivation, ...] = ()  # what the laws of the recipe gave, if there is one

    @property
    def text(self) -> str:
        """One line a value, sorted: loading it gives this configuration again."""
        return HEADER + "".join(f"{key} = {render(value)}\n" for key, value in self.values.items())

    def whole(self) -> dict[str, str]:
        """Every value in Gin's notation, defaults too."""
        return rendered({**self.defaults, **self.values})

    def fingerprint(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def name(self) -> str:
        """What runs: the ids of the methods in the slots."""
        in_slots = [self.values.get(f"model.{slot}") for slot in SLOTS]
        return "+".join(dict.fromkeys(_id(value) for value in in_slots if value)) or "baseline"

    def get(self, key: str) -> Any:
        """The value of "train.seed": as bound, else the default. A method is a Reference."""
        for known in (self.values, self.defaults):
            if key in known:
                return known[key]
        raise ConfigError(f"there is no value for {key}{nearest(key, [*self.values, *self.defaults])}")

    def build(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call the configurable `name` with the values bound to it; arguments given here win over them."""
        self._must_be_current()
        configurable = gin.get_configurable(core_configurables()[name].selector)
        bound = {key.removeprefix(f"{name}."): None for key in self.values if key.startswith(f"{name}.")}
        signature = inspect.signature(core_configurables()[name].wrapped)
        filled = {**bound, **signature.bind_partial(*args, **kwargs).arguments}
        for parameter in signature.parameters.values():
            if parameter.default is REQUIRED and parameter.name not in filled:
                raise ConfigError(f"{name}.{parameter.name} must be set, in a Gin file or with --set")
        overridden.update(f"{name}.{parameter}" for parameter in kwargs)
        try:
            return configurable(*args, **kwargs)
        except Exception as error:
            failure = unwrapped_error(error)
        if isinstance(failure, SettingError) and failure.key in self.places:
            raise ConfigError(f"{self.places[failure.key]}: {failure}") from failure
        raise failure

    def operative(self) -> str:
        """What was used, as a Gin file: every parameter of what has been built so far, defaults included."""
        self._must_be_current()
        return "".join(f"{key} = {text}\n" for key, text in sorted(operative_bindings()))

    def unused(self) -> list[str]:
        """A warning for each binding that nothing has used, once everything is built.

        A file may be for runs and for benches, so what it binds of a suite or a ladder is no mistake of a run.
        """
        self._must_be_current()
        used = {key for key, _ in operative_bindings()} | overridden
        return [
            f"{place}: {key} = {render(self.values[key])} was never used{self._why(key)}"
            for key, place in self.places.items()
            if key not in used and (place.startswith("--set") or not key.startswith(OF_BENCHES))
        ]

    def _why(self, key: str) -> str:
        selector = key.rpartition(".")[0]
        if selector.partition(".")[0] in SLOTS and selector not in {method.name for method in self.plugins}:
            return f": {selector} is in no slot"
        return ""

    def _must_be_current(self) -> None:
        if not is_active(self):
            raise RuntimeError("another configuration was loaded since: Gin holds one at a time")


def _id(value: Any) -> str:
    """The id of the method in a slot; of several that the layers take in turn, all of them."""
    if isinstance(value, tuple):
        return f"hybrid({', '.join('plain' if each is None else _id(each) for each in value)})"
    return str(value.name.rpartition(".")[2])
