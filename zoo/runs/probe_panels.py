"""Parts of figures that show a learned quantity layer by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CARD = (5.0, 2.5)  # inches: a card of TensorBoard is some 400 pixels wide, and text must stay legible in it
DPI = 120
TICKS = 8  # labels that an axis has room for
COLOURS = "viridis"  # from the first layer to the last


def few_ticks(count: int, most: int = TICKS) -> range:
    """Places of at most `most` labels among `count`, equally far apart, the first included."""
    return range(0, count, math.ceil(count / most) or 1)


def layer_ticks(axes: Axes, layers: Sequence[int]) -> None:
    """Label the x-axis with layer numbers that do not touch each other."""
    axes.set_xticks([layers[place] for place in few_ticks(len(layers))])
    axes.set_xlabel("layer")


def layer_colours(layers: Sequence[int]) -> dict[int, Any]:
    """A colour for each layer, in their order."""
    from matplotlib import colormaps

    last = max(len(layers) - 1, 1)
    return {layer: colormaps[COLOURS](0.92 * place / last) for place, layer in enumerate(layers)}


def heat_map(axes: Axes, values: Mapping[int, Sequence[float]]) -> Any:
    """Draw the elements of every layer's vector as one row, the first layer below, and return the image."""
    longest = max(map(len, values.values()))
    rows = [[*row, *[math.nan] * (longest - len(row))] for row in values.values()]
    image = axes.imshow(rows, aspect="auto", origin="lower", cmap=COLOURS)
    layers = list(values)
    axes.set_xticks(few_ticks(longest), [str(place + 1) for place in few_ticks(longest)])
    axes.set_yticks(few_ticks(len(layers)), [str(layers[place]) for place in few_ticks(len(layers))])
    axes.set_xlabel("element")
    axes.set_ylabel("layer")
    return image
