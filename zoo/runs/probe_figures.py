"""Figures of learned and watched values, as TensorBoard shows them: over the steps, and layer by layer as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.runs.probe_panels import (
    CARD,
    DPI,
    Elements,
    element_colours,
    element_lines,
    layer_colours,
    layer_spreads,
    layer_ticks,
)
from zoo.runs.probe_traces import Trace
from zoo.runs.spreads import spreads

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 32  # elements of a vector that are worth watching one by one

Layers = Mapping[int, "torch.Tensor"]  # layer, from 1 → value


def probe_figures(probes: Mapping[str, Layers], step: int, trace: Trace) -> Iterator[tuple[str, Figure]]:
    """Draw every probe: numbers over the steps and against the layer, a short vector with a line per element.

    What depends on the input is one figure: its mean over the steps, and its quantiles in each layer.
    """
    drawable = {name: _numbers(layers) for name, layers in probes.items() if _finite(layers)}
    watched = spreads(drawable)
    parts = {name for spread in watched.values() for name in (spread.mean, *spread.quantiles)}
    for base, spread in watched.items():
        figure = _card(base, step)
        _two_panels(figure, drawable[spread.mean], trace, spread.mean, [drawable[name] for name in spread.quantiles])
        yield base, figure
    for name, values in drawable.items():
        if name not in parts:
            figure = _card(name, step)
            _two_panels(figure, values, trace, name)
            yield name, figure


def _finite(layers: Layers) -> bool:
    return all(bool(value.isfinite().all()) for value in layers.values())


def _numbers(layers: Layers) -> Elements:
    return {layer: value.detach().float().flatten().tolist() for layer, value in layers.items()}


def _card(name: str, step: int) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=CARD, dpi=DPI)  # laid out by hand: matplotlib would draw it several times for it
    figure.suptitle(f"{name}, step {step:,}", fontsize=10)
    return figure


def _two_panels(figure: Figure, values: Elements, trace: Trace, name: str, quantiles: Sequence[Elements] = ()) -> None:
    """Draw how it went over the steps, and, in the same colours, how it is now against the layer."""
    longest = max(map(len, values.values()))
    shares_scale = longest <= FEW
    over_steps, by_layer = figure.subplots(1, 2, sharey=shares_scale, width_ratios=(3, 2))
    figure.subplots_adjust(0.13, 0.19, 0.98, 0.88, wspace=0.06 if shares_scale else 0.4)
    if 1 < longest <= FEW:
        _element_traces(over_steps, values, trace, name)
        element_lines(by_layer, values, (quantiles[0], quantiles[-1]) if quantiles else None)
    else:
        colours = layer_colours(list(values))
        for layer, points in trace.lines(name).items():
            if layer in colours:
                _line(over_steps, points, color=colours[layer])
        if quantiles:
            layer_spreads(by_layer, values, quantiles, colours)
        else:
            _now(by_layer, values, colours)
    _label_steps(over_steps, "mean" if longest > FEW else "")
    for axes in figure.axes:
        axes.tick_params(labelsize=8)


def _element_traces(axes: Axes, values: Elements, trace: Trace, name: str) -> None:
    """Draw every element of a vector over the steps: in the first layer that has several, and dashed in the last."""
    several = [layer for layer, vector in values.items() if len(vector) > 1]
    colours = element_colours(max(map(len, values.values())))
    for layer, style in {several[-1]: "--", several[0]: "-"}.items():
        for element, colour in enumerate(colours[: len(values[layer])]):
            points = trace.lines(name, element).get(layer, ())
            if points:
                _line(axes, points, color=colour, ls=style)
    if several[0] != several[-1]:
        label = f"layer {several[0]}, dashed: {several[-1]}"
        axes.text(0.02, 0.98, label, fontsize=7, va="top", transform=axes.transAxes)


def _line(axes: Axes, points: Sequence[tuple[int, float]], **style: Any) -> None:
    axes.plot(*zip(*points, strict=True), lw=1.2, marker="." if len(points) == 1 else "", **style)


def _label_steps(axes: Axes, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_ylabel(label, fontsize=8)


def _now(axes: Axes, values: Elements, colours: Mapping[int, object]) -> None:
    """Draw a point per layer; of a long vector its mean, with a line from its least to its largest element."""
    for layer, value in values.items():
        axes.vlines(layer, min(value), max(value), color=colours[layer], lw=3, alpha=0.4)
    means = {layer: sum(value) / len(value) for layer, value in values.items()}
    axes.scatter(list(means), list(means.values()), color=[colours[layer] for layer in means], s=18, zorder=3)
    axes.margins(x=0.1)
    layer_ticks(axes, list(values))
