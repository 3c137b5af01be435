"""What the configuration asks of Gin, whose registry and bindings are global: one configuration at a time."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gin
import gin.config

from zoo.config.gin_files import Reference
from zoo.config.values import render
from zoo.errors import ConfigError, PluginError, ZooError
from zoo.plugins.loader import LoadedMethod, unbuildable

# Importing these registers model, data, train, records, recipe, suite and ladder, in Gin's module "zoo". They are known by
# name: config is below them, and the list of settings reads their source without importing them.
CONFIGURABLES = (
    "zoo.model.build",
    "zoo.data.batches",
    "zoo.training.settings",
    "zoo.runs.trackers",
    "zoo.config.recipe",
    "zoo.bench.suite",
    "zoo.bench.ladder",
)
NAMESPACE = "zoo."


def import_configurables() -> None:
    """Import the modules whose functions and classes Gin may configure, so that it knows them."""
    for module in CONFIGURABLES:
        importlib.import_module(module)


_active: object = None  # the configuration whose values Gin holds
overridden: set[str] = set()  # those of its settings that a caller gave another value: to Gin they are not in use


def reset_config() -> None:
    """Forget the configuration that Gin holds."""
    global _active
    _active = None
    overridden.clear()
    gin.clear_config()


def activate(config: object, values: Mapping[str, Any]) -> None:
    """Bind the values in Gin; from now on it holds this configuration."""
    global _active
    core = core_configurables()
    for key, value in values.items():
        selector, _, parameter = key.rpartition(".")
        complete = core[selector].selector if selector in core else selector
        gin.bind_parameter(("", complete, parameter), to_gin(value))
    gin.finalize()
    _active = config


def is_active(config: object) -> bool:
    return _active is config


def core_configurables() -> dict[str, gin.config.Configurable]:
    """The core's configurables by the name that files use. Gin has no public way to list its registry."""
    return {c.name: c for selector, c in gin.config._REGISTRY.items() if selector.startswith(NAMESPACE)}


def register_method(loaded: LoadedMethod) -> None:
    """Make a method known to Gin as slot.id. An earlier one of that name, from another load, is replaced."""
    gin.enter_interactive_mode()  # the public way to allow that
    try:
        gin.external_configurable(_method(loaded), name=loaded.entry.id, module=loaded.entry.slot)
    except Exception as error:
        raise PluginError(f"{loaded.entry.name} of {loaded.entry.source} cannot be configured: {error}") from error
    finally:
        gin.exit_interactive_mode()


def _method(loaded: LoadedMethod) -> Callable[..., Any]:
    """The factory as a plain function: Gin would subclass a class, and two ids may share one factory."""
    entry, factory = loaded.entry, loaded.factory
    assert factory is not None

    def method(layer: Any, /, **settings: Any) -> Any:
        try:
            return factory(layer, **settings)
        except ZooError as error:
            if type(error) not in (ZooError, ConfigError) or entry.id in str(error):
                raise
            raise type(error)(f"{entry.id}: {error}") from error
        except Exception as error:
            raise unbuildable(f"{entry.name} of {entry.source}", error) from error

    method.__signature__ = inspect.signature(factory)  # type: ignore[attr-defined]
    method.__name__ = method.__qualname__ = entry.id
    method.__doc__ = factory.__doc__
    return method


def to_gin(value: Any) -> Any:
    if isinstance(value, Reference):
        return gin.config.parse_value(str(value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(to_gin, value))
    if isinstance(value, dict):
        return {to_gin(key): to_gin(each) for key, each in value.items()}
    return value


def operative_bindings() -> Iterator[tuple[str, str]]:
    """What Gin saw in use, as key and value in Gin's notation. Its public string drops the complete selectors."""
    names = {configurable.selector: name for name, configurable in core_configurables().items()}
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


def unwrapped_error(error: BaseException) -> BaseException:
    """The error as it was raised. Gin re-raises it in a disguise whose message ends in the addresses of functions."""
    while "ExceptionProxy" in getattr(type(error).__init__, "__qualname__", "") and error.__context__:
        error = error.__context__
    return error
