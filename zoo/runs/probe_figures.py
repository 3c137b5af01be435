"""runs.probe_figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zoo.runs.probe_traces import Trace

if TYPE_CHECKING:
    import torch

    Probes = Mapping[str, Mapping[int, torch.Tensor]]  # name → layer, from 1 → value


from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from zoo.runs.probe_panels import CARD, DPI, heat_map, layer_colours, layer_ticks

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FEW = 32  # elements of a vector that are worth watching one by one

Layers = Mapping[int, "torch.Tensor"]  # layer, from 1 → value
Elements = Mapping[int, Sequence[float]]  # the same as plain numbers


def probe_figures(probes: Mapping[str, Layers], step: int, trace: Trace) -> Iterator[tuple[str, Figure]]:
    """Draw every probe: numbers over the steps and against the layer, a short vector as a map of layer and element."""
    from matplotlib.figure import Figure

    for name, layers in probes.items():
        if not all(bool(value.isfinite().all()) for value in layers.values()):
            continue
        values = {layer: value.detach().float().flatten().tolist() for layer, value in layers.items()}
        longest = max(map(len, values.values()))
        figure = Figure(figsize=CARD, dpi=DPI)  # laid out by hand: matplotlib would draw it several times for it
        figure.suptitle(f"{name}, step {step:,}", fontsize=10)
        if 1 < longest <= FEW:
            figure.subplots_adjust(0.09, 0.19, 1.0, 0.88)
            figure.colorbar(heat_map(figure.add_subplot(), values))
        else:
            _lines_and_layers(figure, values, trace.lines(name))
        for axes in figure.axes:
            axes.tick_params(labelsize=8)
        yield name, figure


def _lines_and_layers(figure: Figure, values: Elements, lines: Mapping[int, Sequence[tuple[int, float]]]) -> None:
    """Draw all layers over the steps and, in the same colours, how they are now."""
    from matplotlib.ticker import MaxNLocator

    numbers = all(len(value) == 1 for value in values.values())
    over_steps, by_layer = figure.subplots(1, 2, sharey=numbers, width_ratios=(3, 2))
    figure.subplots_adjust(0.13, 0.19, 0.98, 0.88, wspace=0.06 if numbers else 0.4)
    colours = layer_colours(list(values))
    for layer, points in lines.items():
        if layer in colours:
            marker = "." if len(points) == 1 else ""
            over_steps.plot(*zip(*points, strict=True), color=colours[layer], lw=1.2, marker=marker)
    over_steps.set_xlabel("step")
    over_steps.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    over_steps.set_ylabel("" if numbers else "mean", fontsize=8)
    _now(by_layer, values, colours)
    layer_ticks(by_layer, list(values))


def _now(axes: Axes, values: Elements, colours: Mapping[int, object]) -> None:
    """Draw a point per layer; of a long vector its mean, with a line from its least to its largest element."""
    for layer, value in values.items():
        axes.vlines(layer, min(value), max(value), color=colours[layer], lw=3, alpha=0.4)
    means = {layer: sum(value) / len(value) for layer, value in values.items()}
    axes.scatter(list(means), list(means.values()), color=[colours[layer] for layer in means], s=18, zorder=3)
    axes.margins(x=0.1)
