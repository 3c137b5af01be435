"""Models from the names of methods and from sizes, without a Gin file."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from zoo.api.given import fitting, name as checked_name
from zoo.errors import ConfigError, ZooError, nearest
from zoo.slots import SLOTS

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from zoo.extension import Extension
    from zoo.model.build import Encoding, Parametrization
    from zoo.model.language_model import LanguageModel
    from zoo.plugins.loader import LoadedMethod


class Method:
    """A method with its settings, for a slot of a model: a callable from a layer to an extension."""

    def __init__(self, slot: str, name: str, factory: Callable[..., Extension]) -> None:
        self.slot, self.__name__, self._factory = slot, name, factory

    def __call__(self, layer: Any) -> Extension:
        from zoo.plugins.loader import unbuildable

        try:
            return self._factory(layer)
        except ZooError:
            raise
        except Exception as error:
            raise unbuildable(f"{self.slot}.{self.__name__}", error) from error

    def __repr__(self) -> str:
        return f"zoo.method({self.__name__!r})"


Named = str | Method | Callable[..., Any]  # a method: its id, the same with settings, or a factory of one's own


class ModelSettings(TypedDict, total=False):
    """What `zoo.build` takes beside methods: the settings `model.…` of docs/settings.md."""

    depth: int
    aspect: int
    width: int | None
    head_dim: int | None
    num_heads: int | None
    num_kv_heads: int | None
    query_group: int | None
    ffn_dim: int | None
    parallel: bool
    dropout: float
    tied: bool
    qk_norm: bool
    positions: Encoding
    rope_theta: float
    rope_scaling: dict[str, float | str] | None
    norm_eps: float
    init_std: float | None
    parametrization: Parametrization
    base_width: int | None
    base_depth: int | None
    residual: Named | tuple[Named | None, ...] | None
    score_mixing: Named | tuple[Named | None, ...] | None
    temporal_mixing: Named | tuple[Named | None, ...] | None
    head_mixing: Named | tuple[Named | None, ...] | None
    start_from: str | None
    start_version: str | None
    seed: int


def methods(slot: str | None = None) -> list[str]:
    """The ids of the methods that are installed, all or those of a slot."""
    from zoo.plugins.registry import installed

    if slot not in (None, *SLOTS):
        raise ConfigError(f"there is no slot {slot}{nearest(str(slot), SLOTS)}; there are {', '.join(SLOTS)}")
    return installed().ids(slot)


def method(name: str, /, **settings: Any) -> Method:
    """A method by its id, or SLOT.ID, with settings of its own: `zoo.method("METHOD", n=6)`."""
    from zoo.plugins.registry import installed

    return _method(installed().named(checked_name(name, "a method")), settings)


def build(
    *methods: str | Method, vocab_size: int, max_length: int = 256, **settings: Unpack[ModelSettings]
) -> LanguageModel:
    """A language model with these methods, each in its own slot; without any, the plain block.

    `zoo.build("ONE", "OTHER", vocab_size=512, depth=4)`. A slot can also be named: `residual="METHOD"`, a tuple for the
    layers in turn, or a factory of one's own, which need not be installed: `residual=Damped`. The settings are those of
    `model` in docs/settings.md; with `start_from`, sizes are those of the checkpoint. What is built is an ordinary
    `torch.nn.Module`: `model(tokens)` gives logits, `model.loss(tokens, targets)` the mean cross-entropy in nats per token.
    """
    from zoo.model.build import model

    given: dict[str, Any] = dict(settings)
    _check_names(given, inspect.signature(model).parameters)
    if isinstance(given.get("start_from"), os.PathLike):
        given["start_from"] = os.fspath(given["start_from"])
    sizes = {"vocab_size": vocab_size, "max_length": max_length}
    fitting("model", model, {name: each for name, each in (sizes | given).items() if name not in SLOTS})
    if (checkpoint := given.get("start_from")) is not None:
        from zoo.pretrained.sizes import read_sizes

        given = {key.removeprefix("model."): size for key, size in read_sizes(checkpoint).settings.items()} | given
    for each in methods:
        for part in _parts(each):
            if given.get(part.slot) is not None:
                raise ConfigError(f"{part.__name__} and another method would both stand in the slot {part.slot}")
            given[part.slot] = part
    for slot in SLOTS:
        if slot in given:
            given[slot] = _in_slot(slot, given[slot])
    return model(vocab_size, max_length, **given)


def _check_names(given: dict[str, Any], known: Any) -> None:
    for name in given:
        if name not in known:
            raise ConfigError(
                f"zoo.build has no setting {name}{nearest(name, known)}; docs/settings.md lists those of model"
            )


def _in_slot(slot: str, value: Any) -> Any:
    """What a slot of `model` takes, for what a slot of `build` takes."""
    if isinstance(value, list | tuple) and value:
        return tuple(_in_slot(slot, each) for each in value)
    if value is None or isinstance(value, Method):
        return value
    if not isinstance(value, str):
        return _own(slot, value)
    from zoo.plugins.registry import installed

    qualifier, _, id = value.rpartition(".")
    return _method(installed().get(qualifier or slot, id), {})


def _own(slot: str, value: Any) -> Method:
    """A factory that is installed nowhere."""
    from torch.nn import Module

    if not callable(value) or isinstance(value, Module):
        raise ConfigError(
            f"{slot}={value!r} is no method: give an id, zoo.method(…), a class or function that takes a layer, or a tuple of"
            " these for the layers in turn"
        )
    return Method(slot, getattr(value, "__name__", type(value).__name__), value)


def _parts(each: str | Method) -> Sequence[Method]:
    """A method in each of its slots."""
    if isinstance(each, Method):
        return [each]
    if not isinstance(each, str):
        raise ConfigError(
            f"{each!r} is no name of a method: a factory of one's own is given to a slot, such as residual="
        )
    from zoo.plugins.registry import installed

    return [_method(part, {}) for part in installed().parts(each)]


def _method(loaded: LoadedMethod, settings: dict[str, Any]) -> Method:
    """A loaded method with settings, each known and of the right type."""
    from zoo.plugins.settings import REQUIRED, settings_of

    assert loaded.factory is not None
    entry, known = loaded.entry, {each.name: each for each in settings_of(loaded.factory)}
    for name in settings:
        if name not in known:
            raise ConfigError(f"{entry.name} has no setting {name}{nearest(name, known)}")
    checked = fitting(entry.name, loaded.factory, settings)
    for name, setting in known.items():
        if setting.default is REQUIRED and name not in checked:
            raise ConfigError(f"{entry.name}.{name} must be given: zoo.method({entry.id!r}, {name}=…)")
    return Method(entry.slot, entry.id, functools.partial(loaded.factory, **checked))
