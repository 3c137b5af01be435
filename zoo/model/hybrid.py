"""Different methods in different layers of one slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zoo.extension import SLOT_CLASSES, Extension, Layer, attach_name

PLAIN = "plain"  # the name of a layer without a method


class Hybrid:
    """A factory whose layers take the methods of a pattern in turn, again and again; None is the plain layer."""

    def __init__(self, slot: str, methods: Sequence[Callable[..., Extension] | None]) -> None:
        self.slot, self.methods = slot, tuple(methods)
        names = [PLAIN if method is None else getattr(method, "__name__", "method") for method in self.methods]
        self.__name__ = hybrid_name(names)

    def place(self, layer: Layer) -> int:
        """Whose turn a layer is: an index of `methods`."""
        return layer.index % len(self.methods)

    def __call__(self, layer: Layer) -> Extension:
        """The extension of a layer, by its own method's name."""
        method = self.methods[self.place(layer)]
        if method is None:
            return SLOT_CLASSES[self.slot]()
        built = method(layer)
        attach_name(built, method)
        return built


def hybrid_name(names: Sequence[str]) -> str:
    """What people call a pattern of methods."""
    return f"hybrid({', '.join(names)})"
