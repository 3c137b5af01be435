"""A model's settings and methods as text, and the model built from them again, without a configuration of Gin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.config.gin_files import Reference, read_binding
from zoo.config.values import rendered
from zoo.errors import ConfigError, PluginError
from zoo.extension import called
from zoo.plugins.registry import installed
from zoo.slots import SLOTS

if TYPE_CHECKING:
    from zoo.config.configuration import Config
    from zoo.model.language_model import LanguageModel

NOT_KEPT = (
    "model.start_from",
    "model.start_version",
    "model.seed",
)  # where weights came from is of no use to who has them


def settings_of(config: Config) -> dict[str, str]:
    """Every setting of the model and of its methods in Gin's notation, defaults too, which may change."""
    starts = ("model.", *(f"{method.name}." for method in config.plugins))
    values = {**config.defaults, **config.values}
    return rendered({key: values[key] for key in sorted(values) if key.startswith(starts) and key not in NOT_KEPT})


def model_of(
    settings: Mapping[str, str], methods: Sequence[Mapping[str, str]], vocab_size: int, length: int
) -> LanguageModel:
    """The model of these settings; `methods` say which distribution offers each."""
    from zoo.model.build import model

    values = {key: _value(key, text) for key, text in settings.items()}
    try:
        own = {
            key.removeprefix("model."): _resolved(value, values)
            for key, value in values.items()
            if key.startswith("model.")
        }
    except PluginError as error:
        made_with = ", ".join(
            f"{m.get('slot')}.{m.get('id')} of {m.get('distribution')} {m.get('version')}" for m in methods
        )
        raise PluginError(f"{error}; this model was made with {made_with}: install that") from error
    try:
        return model(vocab_size, length, **own)
    except TypeError as error:
        raise ConfigError(f"this version builds no model of these settings: {error}") from error


def _value(key: str, text: str) -> Any:
    """A value from Gin's notation; it is data, and never run."""
    statements = list(read_binding(f"{key} = {text}"))
    if len(statements) != 1 or statements[0].key != key:
        raise ConfigError(f"{key} = {text!r} is not one setting")
    return statements[0].value


def _resolved(value: Any, values: Mapping[str, Any]) -> Any:
    """The value, with a factory in place of each method that it names."""
    if isinstance(value, tuple | list):
        return type(value)(_resolved(each, values) for each in value)
    if not isinstance(value, Reference):
        return value
    slot, _, id = value.name.partition(".")
    if slot not in SLOTS:
        raise ConfigError(f"{value} names no method")
    factory = installed().get(slot, id).factory
    assert factory is not None
    start = f"{value.name}."
    own = {key.removeprefix(start): _resolved(each, values) for key, each in values.items() if key.startswith(start)}
    return called(id, factory, **own)
