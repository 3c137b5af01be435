"""Weights read from the safetensors of a checkpoint into a model of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch import Tensor

from zoo.errors import SettingError
from zoo.pretrained.names import Heads, Part, copy_from_theirs, parts_of, split
from zoo.pretrained.place import KEY, located, present_weights

IDLE = ("rotary_emb.inv_freq",)  # buffers that older checkpoints keep
NAMED = 5  # shapes that a sentence lists


def load(checkpoint: str, weights: Mapping[str, Tensor], heads: Heads) -> list[str]:
    """Fill the weights that the checkpoint has, by our names, and leave the others; the names of its own that have no place."""
    folder = located(checkpoint, weights=True)
    with ExitStack() as stack:
        there = _opened(folder, checkpoint, stack)
        pairs = [pair for name, weight in weights.items() for pair in _pairs(name, weight, heads)]
        _check(checkpoint, there, pairs)
        for part, stretch in pairs:
            copy_from_theirs(stretch, there[part.name].get_tensor(part.name), part)
    taken = {part.name for part, _ in pairs}
    return sorted(name for name in there if name not in taken and not name.endswith(IDLE))


def tensors(checkpoint: str) -> dict[str, Tensor]:
    """Every weight of a checkpoint, by its name there."""
    with ExitStack() as stack:
        there = _opened(located(checkpoint, weights=True), checkpoint, stack)
        return {name: file.get_tensor(name) for name, file in there.items()}


def _pairs(name: str, weight: Tensor, heads: Heads) -> Iterator[tuple[Part, Tensor]]:
    if parts := parts_of(name, heads):
        yield from zip(parts, split(weight.data, parts), strict=True)


def _opened(folder: Path, checkpoint: str, stack: ExitStack) -> dict[str, Any]:
    """Their names, each with the file that it is in."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise SettingError(KEY, " needs the package safetensors: pip install 'transformer-zoo[hf]'") from error
    there: dict[str, Any] = {}
    for file in present_weights(folder, checkpoint):
        try:
            opened = stack.enter_context(safe_open(file, "pt"))
        except (OSError, SafetensorError) as error:
            raise SettingError(KEY, f" = {checkpoint!r}: {file} cannot be read: {error}") from error
        there |= dict.fromkeys(opened.keys(), opened)
    return there


def _check(checkpoint: str, there: Mapping[str, Any], pairs: list[tuple[Part, Tensor]]) -> None:
    """Refuse a checkpoint that lacks weights, or whose shapes do not fit, and say which."""
    if missing := [part.name for part, _ in pairs if part.name not in there]:
        raise SettingError(KEY, f" = {checkpoint!r} lacks {_listed(missing)}")
    wrong = []
    for part, stretch in pairs:
        shape, needed = tuple(there[part.name].get_slice(part.name).get_shape()), tuple(stretch.shape)
        if shape != needed:
            wrong.append(f"{part.name} is {shape}, and this model needs {needed}")
    if wrong:
        raise SettingError(KEY, f" = {checkpoint!r} does not fit: {_listed(wrong, '; ')}")


def _listed(names: list[str], between: str = ", ") -> str:
    more = f"{between}and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return between.join(names[:NAMED]) + more
