"""What extensions offer to be watched, named so that no two of them hide each other: name → layer → value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from torch import Tensor

from zoo.extension import Extension
from zoo.history import name_of

Layers = Iterable[Iterable[Extension]]  # every layer's extensions
Quantities = dict[str, dict[int, Tensor]]  # name → layer, from 1 → value


class Quantity(NamedTuple):
    """A value that an extension offers under a name."""

    name: str
    method: str
    path: str  # of the extension inside the method's own; empty for that itself
    layer: int  # from 1
    value: Tensor


def by_layer(layers: Layers, offered: Callable[[Extension], Mapping[str, Tensor]]) -> Quantities:
    """Everything that the extensions of a model offer.

    A name that one method alone uses stands as it is; where several do, the method's id is put before it, and where one
    method has it several times in a layer, the place inside of it.
    """
    quantities = list(_all(layers, offered))
    owners: dict[str, set[tuple[str, str]]] = {}
    for each in quantities:
        owners.setdefault(each.name, set()).add((each.method, each.path))
    values: Quantities = {}
    for each in quantities:
        values.setdefault(_label(each, owners[each.name]), {})[each.layer] = each.value.detach()
    return values


def _all(layers: Layers, offered: Callable[[Extension], Mapping[str, Tensor]]) -> Iterator[Quantity]:
    for layer, parts in enumerate(layers, start=1):
        for part in {id(part): part for part in parts}.values():  # one extension may stand in several slots
            for path, module in part.named_modules():
                if isinstance(module, Extension):
                    for name, value in offered(module).items():
                        yield Quantity(name, name_of(part), path, layer, value)


def _label(quantity: Quantity, owners: set[tuple[str, str]]) -> str:
    label = quantity.name
    if quantity.path and len({path for method, path in owners if method == quantity.method}) > 1:
        label = f"{quantity.path}.{label}"
    return f"{quantity.method}.{label}" if len({method for method, _ in owners}) > 1 else label
