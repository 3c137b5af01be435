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
ELEMENTS = "plasma"  # from the first element of a vector to the last
LABELLED = 6  # elements that a legend has room for

Elements = Mapping[int, Sequence[float]]  # layer → the elements of a vector; of a number, one


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


def element_colours(count: int) -> list[Any]:
    """A colour for each element of a vector, in their order."""
    from matplotlib import colormaps

    return [colormaps[ELEMENTS](0.85 * place / max(count - 1, 1)) for place in range(count)]


def element_lines(axes: Axes, values: Elements, band: tuple[Elements, Elements] | None = None) -> None:
    """Draw a vector of every layer against the layer, a line per element: a kernel's taps, the weights of layers below.

    `band` are two quantiles of each, which are shaded between.
    """
    longest = max(map(len, values.values()))
    for place, colour in enumerate(element_colours(longest)):
        layers = [layer for layer, vector in values.items() if place < len(vector)]
        heights = [values[layer][place] for layer in layers]
        axes.plot(layers, heights, ".-", color=colour, lw=1.2, ms=4, label=str(place + 1))
        if band:
            low, high = ([edge[layer][place] for layer in layers] for edge in band)
            axes.fill_between(layers, low, high, color=colour, alpha=0.15, lw=0)
    layer_ticks(axes, list(values))
    if longest <= LABELLED:
        axes.legend(title="element", fontsize=6, title_fontsize=6, frameon=False, handlelength=1.0)


def layer_spreads(axes: Axes, mean: Elements, quantiles: Sequence[Elements], colours: Mapping[int, Any]) -> None:
    """Draw a point per layer, the mean, with a line between each pair of quantiles, the inner ones thicker."""
    pairs = [(quantiles[i], quantiles[-1 - i]) for i in range(len(quantiles) // 2)]
    for width, (low, high) in enumerate(pairs, start=1):
        for layer in mean:
            axes.vlines(layer, low[layer][0], high[layer][0], color=colours[layer], lw=2 * width, alpha=0.35)
    heights = [value[0] for value in mean.values()]
    axes.scatter(list(mean), heights, color=[colours[layer] for layer in mean], s=18, zorder=3)
    axes.margins(x=0.1)
    layer_ticks(axes, list(mean))
