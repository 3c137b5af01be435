"""The extensions of a model, built for its layers, and whether they make sense together."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence

import torch

from zoo.errors import ConfigError, SettingError
from zoo.extension import (
    SLOT_CLASSES,
    Extension,
    HeadMixing,
    Layer,
    Residual,
    TemporalMixing,
    attach_name,
    is_plain,
    name_of,
    overrides,
    slot_of,
)
from zoo.history import check_reads
from zoo.model.hybrid import Hybrid
from zoo.model.initialise import seed_of
from zoo.model.sites import in_place_of_attention, mixers_of
from zoo.system.global_state import WHILE_BUILT, contained

Factory = Callable[..., Extension]
IN_ATTENTION = tuple(slot for slot, base in SLOT_CLASSES.items() if issubclass(base, HeadMixing))


def build_extensions(
    methods: Mapping[str, Factory | None], layers: list[Layer], seed: int, notes: list[str]
) -> dict[str, list[Extension]]:
    """Every slot's extensions, one per layer. A method inside attention is built for the layers that attend.

    To such a method these layers are all there are: it counts them alone, as the history of heads does.
    """
    extensions = {
        slot: _build_all(slot, factory, layers, seed, notes)
        for slot, factory in methods.items()
        if slot not in IN_ATTENTION
    }
    replaced = in_place_of_attention(extensions["temporal_mixing"])  # type: ignore[arg-type]
    attending = [layer for layer, instead in zip(layers, replaced, strict=True) if not instead] or layers
    numbered = [
        dataclasses.replace(layer, index=index, num_layers=len(attending)) for index, layer in enumerate(attending)
    ]
    for slot in IN_ATTENTION:
        built = dict(zip(attending, _build_all(slot, methods[slot], numbered, seed, notes), strict=True))
        extensions[slot] = [built[layer] if layer in built else SLOT_CLASSES[slot]() for layer in layers]
    check_composition(extensions)
    return extensions


def _build_all(
    slot: str, factory: Callable[..., Extension] | None, layers: list[Layer], seed: int, notes: list[str]
) -> list[Extension]:
    """The extensions of a slot, one per layer. What their method changes outside of them is put back and noted."""
    if factory is None:
        return [SLOT_CLASSES[slot]() for _ in layers]
    dtype = torch.get_default_dtype()
    with contained(WHILE_BUILT) as changed:
        built = [_build(slot, factory, layer, seed) for layer in layers]
    changes = [f"{name_of(built[0])} changes {change} while it is built" for change in changed]
    if isinstance(factory, Hybrid):
        _check_turns(slot, factory, built, layers)
    for extension, layer in zip(built, layers, strict=True):
        _check_dtype(extension, layer, dtype, changes)
    notes += [f"{each}; it is set back" for each in changes]
    return built


def _check_turns(slot: str, pattern: Hybrid, built: Sequence[Extension], layers: Sequence[Layer]) -> None:
    """Refuse a pattern in which a method has no layer where it does anything: the model would be another one's under its name."""
    for place, method in enumerate(pattern.methods):
        own = [(part, layer) for part, layer in zip(built, layers, strict=True) if pattern.place(layer) == place]
        if method is not None and not any(_acts(part, layer) for part, layer in own):
            name = getattr(method, "__name__", "a method")
            layers_of = " and ".join(str(layer.number) for _, layer in own)
            where = f"layer{'s' * (len(own) > 1)} {layers_of} alone, where it does nothing" if own else "no layer"
            raise SettingError(f"model.{slot}", f" gives {name} {where}: give it another place in the pattern")


def _acts(part: Extension, layer: Layer) -> bool:
    """Whether an extension does anything in its layer."""
    if not isinstance(part, TemporalMixing):
        return not is_plain(part)
    elsewhere = {site for site, index in (("embedding", 0), ("output", layer.num_layers - 1)) if layer.index != index}
    return bool(mixers_of(part).keys() - elsewhere)


def _check_dtype(extension: Extension, layer: Layer, dtype: torch.dtype, changes: list[str]) -> None:
    """Refuse a method in another type than the model's: it would be compared with a plain block of this one."""
    for name, tensor in (*extension.named_parameters(), *extension.named_buffers()):
        if tensor.is_floating_point() and tensor.dtype != dtype:
            raise ConfigError(
                f"{name_of(extension)}: {name} of layer {layer.number} is {str(tensor.dtype).removeprefix('torch.')},"
                f" the model's dtype is {str(dtype).removeprefix('torch.')}: build it with torch's default dtype"
                + "".join(f" ({each})" for each in changes)
            )


def _build(slot: str, factory: Callable[..., Extension], layer: Layer, seed: int) -> Extension:
    """One extension, with a random state of its own so that no method shifts another's start."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_of(seed, f"{slot}.{layer.index}"))  # torch.manual_seed is slow
        built = factory(layer)
    if slot_of(built) != slot:
        base = SLOT_CLASSES[slot].__name__
        raise ConfigError(f"model.{slot}: the method built a {type(built).__name__}, not a {base}")
    if not isinstance(factory, Hybrid):  # which has named it
        attach_name(built, factory)
    check_reads(built.reads, f"model.{slot}: {name_of(built)}")
    check_calls(built, f"model.{slot}: {name_of(built)}")
    return built


def check_calls(extension: Extension, who: str) -> None:
    """Refuse a function of its own that has the name of one that the slot calls, and takes something else."""
    base = SLOT_CLASSES[slot_of(extension) or ""]
    for name, default in inspect.getmembers(base, inspect.isfunction):
        if (
            name in vars(torch.nn.Module)
            and name != "forward"
            or name.startswith("_")
            or not overrides(extension, name)
        ):
            continue
        given = list(inspect.signature(default).parameters)[1:]
        try:
            inspect.signature(getattr(extension, name)).bind(*given)
        except TypeError:
            raise ConfigError(
                f"{who}: {name} of {type(extension).__name__} must take ({', '.join(given)}), as that of {base.__name__}"
                " does; if it is meant for something else, give it another name"
            ) from None


def check_composition(extensions: Mapping[str, Sequence[Extension]]) -> None:
    """Refuse what makes no sense together, before anything is trained; `extensions` has one per slot and layer."""
    for residual, scores, temporal, heads in zip(*(extensions[slot] for slot in SLOT_CLASSES), strict=True):
        assert isinstance(residual, Residual) and isinstance(temporal, TemporalMixing)
        _check_layer(residual, temporal, [scores, heads])
    _check_streams(extensions["residual"])  # type: ignore[arg-type]
    replaced = in_place_of_attention(extensions["temporal_mixing"])  # type: ignore[arg-type]
    if not any(replaced):
        return
    mixing = name_of(extensions["temporal_mixing"][replaced.index(True)])
    where = "stands in place of attention" if all(replaced) else "stands in place of attention in some layers"
    for residual, alone in zip(extensions["residual"], replaced, strict=True):
        if alone and residual.separates:
            raise ConfigError(
                f"{name_of(residual)} has an input for each of query, key and value, which have no place where nothing attends:"
                f" the temporal_mixing method {mixing} {where}"
            )
    for slot, parts in extensions.items():
        if slot in IN_ATTENTION and all(replaced) and not is_plain(parts[0]):
            what = "scores" if slot == "score_mixing" else "heads"
            raise ConfigError(f"{name_of(parts[0])} has no {what} to mix: the temporal_mixing method {mixing} {where}")
        for part in parts:
            if "blocks" in part.reads or (slot == "residual" and "scores" in part.reads):
                raise ConfigError(
                    f"the {slot} method {name_of(part)} runs earlier layers again with their attention pattern,"
                    f" but the temporal_mixing method {mixing} {where}, so there is none"
                )


def _check_streams(residuals: Sequence[Residual]) -> None:
    """Refuse a wide stream in some layers alone: the first opens it, and the last closes it."""
    if len({name_of(each) if each.widens else "" for each in residuals}) > 1:
        names = dict.fromkeys(name_of(each) for each in residuals if each.widens)
        raise ConfigError(f"{' and '.join(names)} widens the stream, so it must stand in every layer or in none")


def _check_layer(residual: Residual, temporal: TemporalMixing, inside: Sequence[Extension]) -> None:
    """What makes no sense in one layer: running layers again where they are more than norm, attention and FFN."""
    again = [part for part in (residual, *inside) if "blocks" in part.reads]
    if not again:
        return
    if residual.widens:
        raise ConfigError(
            f"{name_of(residual)} widens the stream, and a method that runs layers again needs the plain one"
        )
    if not residual.prenorm:
        raise ConfigError(
            f"{name_of(residual)} leaves out the norms, and {name_of(again[0])} runs earlier layers again with theirs"
        )
    if heads := [part for part in inside if overrides(part, "project") or overrides(part, "output")]:
        raise ConfigError(
            f"{name_of(again[0])} runs earlier layers again, attending to values of its own, and {name_of(heads[0])}"
            " changes what a layer attends to, or what it makes of it"
        )
    if "qkv" in mixers_of(temporal):
        raise ConfigError(
            f"{name_of(again[0])} runs earlier layers again, attending to values of its own, and {name_of(temporal)}"
            " mixes the values that a layer attends to"
        )
