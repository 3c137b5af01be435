"""A run's configuration: Gin files and bindings, checked, flattened and handed to Gin.

`load` reads defaults.gin, the given files and the --set bindings, imports the methods that they name (and no others),
checks everything, and only then binds the outcome in Gin, whose state is global: one configuration at a time.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gin
import gin.config

from zoo import plugins
from zoo.errors import ConfigError, PluginError, ZooError, nearest
from zoo.gin_checks import SLOTTED, Known, check, parameters
from zoo.gin_files import Reader, Reference, Statement, find, gin_folders, read_binding
from zoo.gin_values import render, rendered
from zoo.plugins import REQUIRED, SLOTS, Found, Loaded

__all__ = ["CONFIGURABLES", "Config", "Reference", "find", "gin_folders", "load", "reset"]

# Importing these registers the core's configurables, in Gin's module "zoo".
CONFIGURABLES = ("zoo.model", "zoo.data", "zoo.train", "zoo.suite")
NAMESPACE = "zoo."

HEADER = "# The complete configuration of a run: give this file to --gin to run it again.\n"


@dataclass(frozen=True)
class Config:
    """A configuration that passed every check. It holds plain values, no Gin objects: it can be pickled."""

    files: tuple[tuple[Path, str], ...]  # everything that was read, includes and defaults too, in order, with its text
    given: tuple[Path, ...]  # the files that were asked for
    bindings: tuple[str, ...]
    values: Mapping[str, Any]  # "model.depth" → its value, for all that was bound
    defaults: Mapping[str, Any]  # … → its default, for all that was not
    places: Mapping[str, str]  # "model.depth" → where it was bound; for what defaults.gin bound, nothing
    plugins: tuple[Found, ...]  # the methods in the slots
    warnings: tuple[str, ...]

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
        return "+".join(found.id for found in self.plugins) or "baseline"

    def get(self, key: str) -> Any:
        """The value of "train.seed": as bound, else the default. A method is a Reference."""
        for known in (self.values, self.defaults):
            if key in known:
                return known[key]
        raise ConfigError(f"there is no value for {key}{nearest(key, [*self.values, *self.defaults])}")

    def build(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call the configurable `name` with the values bound to it; arguments given here win over them."""
        self._must_be_current()
        configurable = gin.get_configurable(_core()[name].selector)
        bound = {key.removeprefix(f"{name}."): None for key in self.values if key.startswith(f"{name}.")}
        signature = inspect.signature(_core()[name].wrapped)
        filled = {**bound, **signature.bind_partial(*args, **kwargs).arguments}
        for parameter in signature.parameters.values():
            if parameter.default is REQUIRED and parameter.name not in filled:
                raise ConfigError(f"{name}.{parameter.name} must be set, in a Gin file or with --set")
        try:
            return configurable(*args, **kwargs)
        except Exception as error:
            failure = _without_gin(error)
        raise failure

    def operative(self) -> str:
        """What was used, as a Gin file: every parameter of what has been built so far, defaults included."""
        self._must_be_current()
        return "".join(f"{key} = {text}\n" for key, text in sorted(_operative()))

    def unused(self) -> list[str]:
        """A warning for each binding that nothing has used, once everything is built."""
        self._must_be_current()
        used = {key for key, _ in _operative()}
        return [
            f"{place}: {key} = {render(self.values[key])} was never used{self._why(key)}"
            for key, place in self.places.items()
            if key not in used
        ]

    def _why(self, key: str) -> str:
        selector = key.rpartition(".")[0]
        if selector.partition(".")[0] in SLOTS and selector not in {found.name for found in self.plugins}:
            return f": {selector} is in no slot"
        return ""

    def _must_be_current(self) -> None:
        if _current is not self:
            raise RuntimeError("another configuration was loaded since: Gin holds one at a time")


_current: Config | None = None


def reset() -> None:
    """Forget the configuration that Gin holds."""
    global _current
    _current = None
    gin.clear_config()


def load(files: Sequence[str | Path], bindings: Sequence[str] = ()) -> Config:
    """Read, check and activate a configuration. Every mistake in it is a ConfigError (a broken method: PluginError)."""
    global _current
    reset()
    registry = plugins.registry()
    reader = Reader(gin_folders(registry))
    given = tuple(find(str(file), folders=reader.folders) for file in files)
    statements = list(_read(reader, given, bindings))
    for module in CONFIGURABLES:
        importlib.import_module(module)
    known = Known({name: parameters(c) for name, c in _core().items()}, registry)
    values, winners, warnings = check(statements, known)

    in_slots = [values.get(f"{SLOTTED}.{slot}") for slot in SLOTS]
    config = Config(
        files=tuple(reader.texts.items()),
        given=given,
        bindings=tuple(bindings),
        values=values,
        defaults={key: default for key, default in _defaults(known) if key not in values},
        places={key: statement.where for key, statement in winners.items() if statement.source != "defaults"},
        plugins=tuple(known.methods[reference.name].found for reference in in_slots if reference),
        warnings=tuple(warnings),
    )
    for loaded in known.methods.values():
        _register(loaded)
    for key, value in values.items():
        selector, _, parameter = key.rpartition(".")
        complete = _core()[selector].selector if selector in known.core else selector
        gin.bind_parameter(("", complete, parameter), _for_gin(value))
    gin.finalize()
    _current = config
    return config


def _read(reader: Reader, given: Sequence[Path], bindings: Sequence[str]) -> Iterator[Statement]:
    if not (folders := plugins.project_gin()):
        raise ConfigError("this installation lacks its Gin files (defaults.gin): install it again")
    yield from reader.read_file(folders[0] / "defaults.gin", "defaults")
    for path in given:
        yield from reader.read_file(path, "file")
    for binding in bindings:
        yield from read_binding(binding)


def _core() -> dict[str, gin.config.Configurable]:
    """The core's configurables by the name that files use. Gin has no public way to list its registry."""
    return {c.name: c for selector, c in gin.config._REGISTRY.items() if selector.startswith(NAMESPACE)}


def _defaults(known: Known) -> Iterator[tuple[str, Any]]:
    for selector in [*known.core, *known.methods]:
        for setting in known.settings(selector).values():
            if setting.default is not REQUIRED and setting.default is not gin.REQUIRED:
                yield f"{selector}.{setting.name}", setting.default


def _register(loaded: Loaded) -> None:
    """Make a method known to Gin as slot.id. An earlier one of that name, from another load, is replaced."""
    gin.enter_interactive_mode()  # the public way to allow that
    try:
        gin.external_configurable(_method(loaded), name=loaded.found.id, module=loaded.found.slot)
    except Exception as error:
        raise PluginError(f"{loaded.found.name} of {loaded.found.source} cannot be configured: {error}") from error
    finally:
        gin.exit_interactive_mode()


def _method(loaded: Loaded) -> Callable[..., Any]:
    """The factory as a plain function: Gin would subclass a class, and two ids may share one factory."""
    found, factory = loaded.found, loaded.factory
    assert factory is not None

    def method(layer: Any, /, **settings: Any) -> Any:
        try:
            return factory(layer, **settings)
        except ZooError:
            raise
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            raise PluginError(
                f"{found.name} of {found.source} cannot be built: {type(error).__name__}: {error}"
                f" ({frame.filename}:{frame.lineno})"
            ) from error

    method.__signature__ = inspect.signature(factory)  # type: ignore[attr-defined]
    method.__name__ = method.__qualname__ = found.id
    method.__doc__ = factory.__doc__
    return method


def _for_gin(value: Any) -> Any:
    if isinstance(value, Reference):
        return gin.config.parse_value(str(value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_for_gin, value))
    if isinstance(value, dict):
        return {_for_gin(key): _for_gin(each) for key, each in value.items()}
    return value


def _operative() -> Iterator[tuple[str, str]]:
    """What Gin saw in use, as key and value in Gin's notation. Its public string drops the complete selectors."""
    names = {configurable.selector: name for name, configurable in _core().items()}
    for (_, selector), used in gin.config._OPERATIVE_CONFIG.items():
        for parameter, value in used.items():
            try:
                text = render(_from_gin(value))
            except TypeError:  # a default that is an object
                continue
            yield f"{names.get(selector, selector)}.{parameter}", text


def _from_gin(value: Any) -> Any:
    if isinstance(value, gin.config.ConfigurableReference):
        return Reference(value.selector)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_from_gin, value))
    if isinstance(value, dict):
        return {_from_gin(key): _from_gin(each) for key, each in value.items()}
    return value


def _without_gin(error: BaseException) -> BaseException:
    """The error as it was raised. Gin re-raises it in a disguise whose message ends in the addresses of functions."""
    while "ExceptionProxy" in getattr(type(error).__init__, "__qualname__", "") and error.__context__:
        error = error.__context__
    return error
