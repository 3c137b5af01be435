"""Does a configuration make sense: known names, one file a slot, fitting values, nothing left open.

Every complaint begins with the file and line it is about; all of them are reported together.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gin
import gin.config

from zoo.config.gin_files import DEEPEST, Macro, Reference, Statement, leaves
from zoo.config.values import Mismatch, coerce, describe, render, shortened
from zoo.errors import ConfigError, PluginError, nearest
from zoo.plugins.loader import LoadedMethod
from zoo.plugins.registry import Registry, UnknownMethod
from zoo.plugins.settings import REQUIRED, Setting, resolve_annotation, settings_of
from zoo.slots import SLOTS

SLOTTED = "model"  # the configurable whose parameters are the slots
MUST_BE_SET = ("gin.REQUIRED", "REQUIRED")
MOST_VALUES = 100_000  # that all macros of a configuration may stand for


@dataclass
class Namespace:
    """What a configuration may name: the core's configurables, and the methods, each imported when it is named."""

    core: Mapping[str, Mapping[str, Setting]]  # configurable → its parameters
    registry: Registry
    methods: dict[str, LoadedMethod] = field(default_factory=dict)

    def settings(self, selector: str) -> Mapping[str, Setting]:
        """What can be set on `selector`; an error that suggests other names if there is no such thing."""
        if selector in self.core:
            return self.core[selector]
        loaded = self.methods.get(selector) or self._method(selector)
        self.methods[selector] = loaded
        assert loaded.factory is not None
        return {setting.name: setting for setting in settings_of(loaded.factory)}

    def _method(self, selector: str) -> LoadedMethod:
        if "/" in selector:
            raise ConfigError(f"{selector} is scoped; nothing in the zoo runs in a Gin scope")
        slot, _, id = selector.rpartition(".")
        if slot in SLOTS:
            return self.registry.get(slot, id)
        if claims := self.registry.claims(selector):
            raise ConfigError(f"{selector} is not qualified: write {' or '.join(f.name for f in claims)}")
        if selector.removeprefix(f"{SLOTTED}.") in SLOTS:
            slot = selector.removeprefix(f"{SLOTTED}.")
            raise ConfigError(
                f"{selector} is a slot: write {slot}.ID.SETTING = VALUE, and {SLOTTED}.{slot} = @{slot}.ID"
            )
        near = nearest(selector, [*self.core, *self.registry.names()])
        raise ConfigError(f"there is nothing called {selector} to configure{near}")


class Complaints(list[str]):
    """Errors, gathered."""

    def add(self, statement: Statement, message: object) -> None:
        text = f"{statement.where}: {message}"
        if text not in self:
            self.append(text)

    def settle(self) -> None:
        if self:
            raise ConfigError("\n".join(self))


def check(statements: Sequence[Statement], known: Namespace) -> tuple[dict[str, Any], dict[str, Statement], list[str]]:
    """The final values and the statements that bound them, by key in canonical order, and the warnings."""
    complaints = Complaints()
    warnings: list[str] = []
    settings: dict[str, Setting] = {}
    for statement in statements:
        if statement.parameter:
            try:
                settings[statement.key] = _setting(statement, known)
            except (ConfigError, UnknownMethod) as error:
                complaints.add(statement, error)
            except PluginError as error:
                raise PluginError(f"{statement.where}: {error}") from None

    winners = _winners(statements, complaints, warnings)
    expansion = Expansion({s.selector: s for s in winners.values() if not s.parameter})
    values: dict[str, Any] = {}
    for statement in statements:
        if statement.key not in settings:
            continue
        wins = winners[statement.key] is statement
        try:
            value = expansion.of(statement.value)
        except Unlimited as error:
            raise ConfigError(f"{statement.where}: {statement.key}: {error}") from None
        except ConfigError as error:
            if wins:
                complaints.add(statement, f"{statement.key}: {error}")
            continue
        try:
            value = _fit(statement, value, settings[statement.key], known)
        except (ConfigError, UnknownMethod) as error:
            complaints.add(statement, error)
        except PluginError as error:
            raise PluginError(f"{statement.where}: {error}") from None
        values[statement.key] = value  # the last one stays
    for statement in expansion.macros.values():
        _check_macro(statement, expansion.used, known, complaints, warnings)
    complaints.settle()
    _check_complete(values, winners, known)
    ordered = sorted(values)
    return {key: values[key] for key in ordered}, {key: winners[key] for key in ordered}, warnings


def _setting(statement: Statement, known: Namespace) -> Setting:
    settings = known.settings(statement.selector)
    if statement.parameter not in settings:
        hint = nearest(statement.parameter, settings)
        if not hint:
            others = [f"{name}.{statement.parameter}" for name in known.core if statement.parameter in known.core[name]]
            hint = f" (nearest: {', '.join(others)})" if others else f" (it has: {', '.join(settings) or 'none'})"
        raise ConfigError(f"{statement.selector} has no setting {statement.parameter}{hint}")
    return settings[statement.parameter]


def _winners(statements: Sequence[Statement], complaints: Complaints, warnings: list[str]) -> dict[str, Statement]:
    """The last statement for each key. One file replacing another's value is told, and refused for a slot."""
    winners: dict[str, Statement] = {}
    for statement in statements:
        before = winners.get(statement.key)
        winners[statement.key] = statement
        # Files are there to change defaults, and --set to change anything.
        if before is None or before.source != statement.source or statement.source == "set":
            continue
        if before.where == statement.where:  # one file, read twice
            continue
        if statement.selector == SLOTTED and statement.parameter in SLOTS:
            complaints.add(
                statement,
                f"{statement.key} = {statement.value} is the second method for one slot:"
                f" {before.where} has already bound it to {before.value}; give only one of the two",
            )
        # A file that includes another does so in order to change something in it.
        elif statement.files[-1] not in before.files[:-1] and render(before.value) != render(statement.value):
            warnings.append(
                f"{statement.where}: {statement.key} = {render(statement.value)} replaces"
                f" {render(before.value)} of {before.where}"
            )
    return winners


class Unlimited(ConfigError):
    """Macros that stand for too much: there is no use in going on."""


class Expansion:
    """Values with every macro replaced by what it stands for; counted, for n lines of macros can mean 2ⁿ values."""

    def __init__(self, macros: Mapping[str, Statement]) -> None:
        self.macros = macros
        self.used: set[str] = set()
        self.count = 0

    def of(self, value: Any, above: tuple[str, ...] = (), depth: int = 0) -> Any:
        """The value, expanded inside the macros `above` and `depth` brackets."""
        self.count += 1
        if self.count > MOST_VALUES:
            raise Unlimited(f"its macros stand for more than {MOST_VALUES:,} values in all")
        if depth > DEEPEST:
            raise Unlimited(f"it has more than {DEEPEST} brackets within each other")
        if isinstance(value, Macro):
            return self._macro(value, above, depth)
        if isinstance(value, (list, tuple)):
            return type(value)([self.of(each, above, depth + 1) for each in value])
        if isinstance(value, dict):
            return self._dictionary(value, above, depth + 1)
        return value

    def _macro(self, macro: Macro, above: tuple[str, ...], depth: int) -> Any:
        if macro.name in MUST_BE_SET:
            raise ConfigError("must be given a value, in a Gin file or with --set")
        if macro.name not in self.macros:
            raise ConfigError(f"the macro {macro} is not defined{nearest(macro.name, self.macros)}")
        if macro.name in above:
            raise ConfigError(f"the macro {macro} is defined by itself")
        if len(above) >= DEEPEST:
            raise Unlimited(f"the macro {macro} is more than {DEEPEST} macros deep")
        self.used.add(macro.name)
        return self.of(self.macros[macro.name].value, (*above, macro.name), depth)

    def _dictionary(self, value: Mapping[Any, Any], above: tuple[str, ...], depth: int) -> dict[Any, Any]:
        expanded = {}
        for key, each in value.items():
            meant = self.of(key, above, depth)
            try:
                expanded[meant] = self.of(each, above, depth)
            except TypeError:
                raise ConfigError(f"{key} stands for a {type(meant).__name__}, which cannot be a key") from None
        return expanded


def _fit(statement: Statement, value: Any, setting: Setting, known: Namespace) -> Any:
    """The value, checked against what the parameter wants."""
    for each in leaves(value):
        if isinstance(each, Reference):
            if each.called:
                raise ConfigError(f"{each} would be called while the file is read: write @{each.name}")
            known.settings(each.name)
    if statement.selector == SLOTTED and statement.parameter in SLOTS:
        return _fit_slot(statement.parameter, value, known)
    if value is None and setting.default is None:
        return None
    try:
        return coerce(value, setting.annotation)
    except Mismatch:
        meant = f" (from {statement.value})" if isinstance(statement.value, Macro) else ""
        wanted, got = describe(setting.annotation), f"{shortened(render(value))}{meant}"
        if isinstance(value, Reference):
            got = f"{value}{meant}, a reference"
        elif not (isinstance(value, str) and wanted.startswith("one of ")):  # of the right type, but no such choice
            got = f"{got}, which is {type(value).__name__}"
        raise ConfigError(f"{statement.key} must be {wanted}, not {got}") from None


def _fit_slot(slot: str, value: Any, known: Namespace) -> Any:
    """A method, None, or a tuple of them that the layers take in turn."""
    if not isinstance(value, tuple):
        return _fit_method(slot, value, known)
    if not any(value):
        raise ConfigError(f"{SLOTTED}.{slot} = {render(value)} names no method: write (@{slot}.ID, None), or None")
    return tuple(_fit_method(slot, each, known) for each in value)


def _fit_method(slot: str, value: Any, known: Namespace) -> Reference | None:
    if value is None:
        return None
    if not isinstance(value, Reference):
        hint = f": write @{slot}.{value}" if isinstance(value, str) else ""
        raise ConfigError(
            f"{SLOTTED}.{slot} must be a method (@{slot}.ID) or None, not {shortened(render(value))}{hint}"
        )
    if value.name not in known.methods:
        raise ConfigError(f"{value} is no method and cannot fill {SLOTTED}.{slot}")
    method = known.methods[value.name].entry
    if method.slot != slot:
        right = f"{SLOTTED}.{method.slot} = {value}"
        raise ConfigError(f"{method.id} is a {method.slot} method and cannot fill {SLOTTED}.{slot}: write {right}")
    return value


def _check_macro(
    statement: Statement, used: set[str], known: Namespace, complaints: Complaints, warnings: list[str]
) -> None:
    """A macro that nothing uses is most likely a binding whose configurable was forgotten."""
    if statement.selector in used:
        return
    meant = [f"{name}.{statement.selector}" for name in known.core if statement.selector in known.core[name]]
    hint = f": did you mean {' or '.join(meant)}?" if meant else ""
    message = (
        f"{statement.selector} = {render(statement.value)} sets nothing, and no %{statement.selector} is used{hint}"
    )
    if statement.source == "set":
        complaints.add(statement, message)
    elif statement.source == "file":
        warnings.append(f"{statement.where}: {message}")


def _check_complete(values: Mapping[str, Any], winners: Mapping[str, Statement], known: Namespace) -> None:
    """Everything that must be set, is: what the core marks as gin.REQUIRED, and the settings of the methods in use."""
    complaints = Complaints()
    for name, settings in known.core.items():
        for setting in settings.values():
            if setting.default is gin.REQUIRED and f"{name}.{setting.name}" not in values:
                complaints.append(f"{name}.{setting.name} must be set, in a Gin file or with --set")
    for key, value in values.items():
        for name in [each.name for each in leaves(value) if isinstance(each, Reference)]:
            for setting in known.settings(name).values():
                if setting.default is REQUIRED and f"{name}.{setting.name}" not in values:
                    complaints.add(winners[key], f"{name}.{setting.name} must be set: it has no default")
    complaints.settle()


def parameters(configurable: gin.config.Configurable) -> dict[str, Setting]:
    """What Gin may set on one of the core's functions."""
    function, allowed, denied = configurable.wrapped, configurable.allowlist, configurable.denylist
    return {
        p.name: Setting(p.name, resolve_annotation(p.annotation, function), p.default)
        for p in inspect.signature(function).parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        and (not allowed or p.name in allowed)
        and p.name not in (denied or ())
    }
