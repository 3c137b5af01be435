"""Does a configuration make sense: known names, one file a slot, fitting values, nothing left open.

Every complaint begins with the file and line it is about; all of them are reported together.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gin
import gin.config

from zoo import plugins
from zoo.errors import ConfigError, PluginError, nearest
from zoo.gin_files import Macro, Reference, Statement
from zoo.gin_values import Mismatch, coerce, describe, render
from zoo.plugins import REQUIRED, SLOTS, Loaded, Setting, UnknownMethod

SLOTTED = "model"  # the configurable whose parameters are the slots
MUST_BE_SET = ("gin.REQUIRED", "REQUIRED")


@dataclass
class Known:
    """What a configuration may name: the core's configurables, and the methods, each imported when it is named."""

    core: Mapping[str, Mapping[str, Setting]]  # configurable → its parameters
    registry: plugins.Registry
    methods: dict[str, Loaded] = field(default_factory=dict)

    def settings(self, selector: str) -> Mapping[str, Setting]:
        """What can be set on `selector`; an error that suggests other names if there is no such thing."""
        if selector in self.core:
            return self.core[selector]
        loaded = self.methods.get(selector) or self._method(selector)
        self.methods[selector] = loaded
        assert loaded.factory is not None
        return {setting.name: setting for setting in plugins.settings(loaded.factory)}

    def _method(self, selector: str) -> Loaded:
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


def check(statements: Sequence[Statement], known: Known) -> tuple[dict[str, Any], dict[str, Statement], list[str]]:
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
    macros = {statement.selector: statement for statement in winners.values() if not statement.parameter}
    used: set[str] = set()
    values: dict[str, Any] = {}
    for statement in statements:
        if statement.key not in settings:
            continue
        wins = winners[statement.key] is statement
        try:
            value = _expand(statement.value, macros, used)
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
    for statement in macros.values():
        _check_macro(statement, used, known, complaints, warnings)
    complaints.settle()
    _check_complete(values, winners, known)
    ordered = sorted(values)
    return {key: values[key] for key in ordered}, {key: winners[key] for key in ordered}, warnings


def _setting(statement: Statement, known: Known) -> Setting:
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


def _expand(value: Any, macros: Mapping[str, Statement], used: set[str], above: tuple[str, ...] = ()) -> Any:
    """The value with every macro replaced by what it stands for."""

    def expand(each: Any) -> Any:
        return _expand(each, macros, used, above)

    if isinstance(value, Macro):
        if value.name in MUST_BE_SET:
            raise ConfigError("must be given a value, in a Gin file or with --set")
        if value.name not in macros:
            raise ConfigError(f"the macro {value} is not defined{nearest(value.name, macros)}")
        if value.name in above:
            raise ConfigError(f"the macro {value} is defined by itself")
        used.add(value.name)
        return _expand(macros[value.name].value, macros, used, (*above, value.name))
    if isinstance(value, (list, tuple)):
        return type(value)(map(expand, value))
    if isinstance(value, dict):
        return {expand(key): expand(each) for key, each in value.items()}
    return value


def _fit(statement: Statement, value: Any, setting: Setting, known: Known) -> Any:
    """The value, checked against what the parameter wants."""
    for reference in _references(value):
        if reference.called:
            raise ConfigError(f"{reference} would be called while the file is read: write @{reference.name}")
        known.settings(reference.name)
    if statement.selector == SLOTTED and statement.parameter in SLOTS:
        return _fit_slot(statement.parameter, value, known)
    if value is None and setting.default is None:
        return None
    try:
        return coerce(value, setting.annotation)
    except Mismatch:
        meant = f" (from {statement.value})" if isinstance(statement.value, Macro) else ""
        got = f"{render(value)}{meant}, which is {type(value).__name__}"
        if isinstance(value, Reference):
            got = f"{value}{meant}, a reference"
        raise ConfigError(f"{statement.key} must be {describe(setting.annotation)}, not {got}") from None


def _fit_slot(slot: str, value: Any, known: Known) -> Reference | None:
    if value is None:
        return None
    if not isinstance(value, Reference):
        hint = f": write @{slot}.{value}" if isinstance(value, str) else ""
        raise ConfigError(f"{SLOTTED}.{slot} must be a method (@{slot}.ID) or None, not {render(value)}{hint}")
    if value.name not in known.methods:
        raise ConfigError(f"{value} is no method and cannot fill {SLOTTED}.{slot}")
    found = known.methods[value.name].found
    if found.slot != slot:
        right = f"{SLOTTED}.{found.slot} = {value}"
        raise ConfigError(f"{found.id} is a {found.slot} method and cannot fill {SLOTTED}.{slot}: write {right}")
    return value


def _references(value: Any) -> Iterable[Reference]:
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _references(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _references(key)
            yield from _references(each)


def _check_macro(
    statement: Statement, used: set[str], known: Known, complaints: Complaints, warnings: list[str]
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


def _check_complete(values: Mapping[str, Any], winners: Mapping[str, Statement], known: Known) -> None:
    """Everything that must be set, is: what the core marks as gin.REQUIRED, and the settings of the methods in use."""
    complaints = Complaints()
    for name, settings in known.core.items():
        for setting in settings.values():
            if setting.default is gin.REQUIRED and f"{name}.{setting.name}" not in values:
                complaints.append(f"{name}.{setting.name} must be set, in a Gin file or with --set")
    for key in values:
        if isinstance(values[key], Reference):
            for setting in known.settings(values[key].name).values():
                if setting.default is REQUIRED and f"{values[key].name}.{setting.name}" not in values:
                    complaints.add(winners[key], f"{values[key].name}.{setting.name} must be set: it has no default")
    complaints.settle()


def parameters(configurable: gin.config.Configurable) -> dict[str, Setting]:
    """What Gin may set on one of the core's functions."""
    function, allowed, denied = configurable.wrapped, configurable.allowlist, configurable.denylist
    return {
        p.name: Setting(p.name, plugins.resolve(p.annotation, function), p.default)
        for p in inspect.signature(function).parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        and (not allowed or p.name in allowed)
        and p.name not in (denied or ())
    }
