"""What methods have learned by the end of training, as a bench's report shows it: means over seeds, layer by layer."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.report.arm_results import ArmResults
from zoo.runs.probe_panels import CARD, DPI, Elements, element_lines, layer_spreads, layer_ticks
from zoo.runs.spreads import spreads
from zoo.system.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4  # of panels
COLOUR = "#1f6fb3"


def final_values(arm: ArmResults) -> dict[str, Elements]:
    """The quantities that an arm's methods have learned: name → layer → elements, each the mean over finished runs."""
    by_seed: dict[str, dict[int, list[Sequence[float]]]] = {}
    for run in arm.finished:
        for name, layers in run.probes.items():
            for layer, value in layers.items():
                by_seed.setdefault(name, {}).setdefault(int(layer), []).append(_elements(value))
    return {
        name: {layer: [_mean(each) for each in zip(*layers[layer], strict=False)] for layer in sorted(layers)}
        for name, layers in sorted(by_seed.items())
    }


def _elements(value: Any) -> list[float]:
    """The numbers of a stored value; null, in place of what is not finite, is NaN."""
    return [math.nan if each is None else each for each in (value if isinstance(value, list) else [value])]


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return statistics.fmean(finite) if finite else math.nan


def table(arms: Sequence[ArmResults], where: str) -> Table | None:
    """A row per method and quantity; None if nothing was learned that can be shown."""
    panels = learned_panels(sorted(arms, key=lambda arm: arm.first.name))
    layers = sorted({layer for panel in panels for layer in panel.mean})
    rows = [
        (panel.arm.first.name, panel.name, str(len(panel.arm.finished)), *(_of_layer(panel, n) for n in layers))
        for panel in panels
    ]
    head = ("method", "learned value", "n", *(f"layer {layer}" for layer in layers))
    title = (
        f"Learned values at the end, mean over seeds (of a vector its least … largest element; of what depends on the"
        f" input its mean, and from where to where nine tenths of it lie), {where}"
    )
    return Table(title, head, tuple(rows)) if rows else None


def _of_layer(panel: LearnedPanel, layer: int) -> str:
    mean = _cell(panel.mean.get(layer))
    if not panel.quantiles or mean == "–":
        return mean
    low, high = panel.quantiles[0][layer], panel.quantiles[-1][layer]
    return f"{mean} ({min(low):.3f} … {max(high):.3f})"


def _cell(elements: Sequence[float] | None) -> str:
    if not elements or any(map(math.isnan, elements)):
        return "–"
    low, high = min(elements), max(elements)
    return f"{low:.3f}" if len(elements) == 1 else f"{low:.3f} … {high:.3f}"


def figure(arms: Sequence[ArmResults], title: str) -> Figure | None:
    """A panel per method and quantity, for a page; None if nothing was learned that can be shown."""
    from matplotlib.figure import Figure

    panels = learned_panels(arms)
    if not panels:
        return None
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    drawn = Figure(figsize=(max(5.0, 2.7 * columns), 0.7 + 2.1 * rows), layout="constrained")
    drawn.suptitle(textwrap.fill(title, 90), fontsize=10)
    grid = drawn.subplots(rows, columns, squeeze=False).flatten().tolist()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid, panels, strict=False):
        axes.set_title(f"{_cut(panel.arm.first.name)}\n{_cut(panel.name)}", fontsize=8)
        _draw(axes, panel, 6)
    return drawn


def cards(arms: Sequence[ArmResults]) -> Iterator[tuple[str, Figure]]:
    """A figure per method and quantity, of the size of a card of TensorBoard, with its name."""
    from matplotlib.figure import Figure

    for panel in learned_panels(arms):
        drawn = Figure(figsize=CARD, dpi=DPI)
        drawn.subplots_adjust(0.13, 0.19, 0.97, 0.88)
        axes = drawn.add_subplot()
        axes.set_title(f"{_cut(panel.arm.first.name)}: {_cut(panel.name)}", fontsize=10)
        _draw(axes, panel, 8)
        yield f"{panel.arm.first.name}_{panel.name}", drawn


class LearnedPanel(NamedTuple):
    """A quantity that an arm has learned: by layer, means over the seeds."""

    arm: ArmResults
    name: str
    mean: Elements
    quantiles: tuple[Elements, ...] = ()  # of what depends on the input, the lowest first


def learned_panels(arms: Sequence[ArmResults]) -> list[LearnedPanel]:
    """A panel per quantity of every arm; the statistics of one that depends on the input are one panel."""
    panels = []
    for arm in arms:
        values = final_values(arm)
        watched = {spread.mean: (base, spread) for base, spread in spreads(values).items()}
        statistics = {name for _, spread in watched.values() for name in spread.quantiles}
        for name, of in values.items():
            if name in watched:
                base, spread = watched[name]
                panels.append(LearnedPanel(arm, base, of, tuple(values[each] for each in spread.quantiles)))
            elif name not in statistics:
                panels.append(LearnedPanel(arm, name, of))
    return panels


def _cut(name: str, most: int = 28) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _draw(axes: Axes, panel: LearnedPanel, size: float) -> None:
    """Draw a point per layer with a line per seed, or a line per element; `size` is that of the labels."""
    if max(map(len, panel.mean.values())) > 1:
        element_lines(axes, panel.mean, (panel.quantiles[0], panel.quantiles[-1]) if panel.quantiles else None)
    elif panel.quantiles:
        layer_spreads(axes, panel.mean, panel.quantiles, dict.fromkeys(panel.mean, COLOUR))
    else:
        _points(axes, panel)
    axes.tick_params(labelsize=size)
    axes.xaxis.label.set_fontsize(size + 1)
    axes.yaxis.label.set_fontsize(size + 1)


def _points(axes: Axes, panel: LearnedPanel) -> None:
    for run in panel.arm.finished:
        seed = {int(layer): _elements(value)[0] for layer, value in run.probes.get(panel.name, {}).items()}
        axes.plot(list(seed), list(seed.values()), "-", color=COLOUR, lw=0.6, alpha=0.4)
    axes.plot(list(panel.mean), [value for (value,) in panel.mean.values()], "o-", color=COLOUR, ms=3, lw=1.2)
    layer_ticks(axes, list(panel.mean))
    axes.spines[["top", "right"]].set_visible(False)
