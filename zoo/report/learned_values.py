"""What methods have learned by the end of training, as a bench's report shows it: means over seeds, layer by layer."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.report.arm_results import ArmResults
from zoo.runs.probe_panels import CARD, DPI, heat_map, layer_ticks
from zoo.system.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Layers = Mapping[int, Sequence[float]]  # layer → the elements of a vector; of a number, one

COLUMNS = 4  # of panels
COLOUR = "#1f6fb3"


def final_values(arm: ArmResults) -> dict[str, Layers]:
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
    values = {arm.first.name: (arm, final_values(arm)) for arm in arms}
    layers = sorted({n for _, learned in values.values() for of in learned.values() for n in of})
    rows = [
        (method, name, str(len(arm.finished)), *(_cell(of.get(layer)) for layer in layers))
        for method, (arm, learned) in sorted(values.items())
        for name, of in learned.items()
    ]
    head = ("method", "learned value", "n", *(f"layer {layer}" for layer in layers))
    title = f"Learned values at the end, mean over seeds (of a vector its least … largest element), {where}"
    return Table(title, head, tuple(rows)) if rows else None


def _cell(elements: Sequence[float] | None) -> str:
    if not elements or any(map(math.isnan, elements)):
        return "–"
    low, high = min(elements), max(elements)
    return f"{low:.3f}" if len(elements) == 1 else f"{low:.3f} … {high:.3f}"


def figure(arms: Sequence[ArmResults], title: str) -> Figure | None:
    """A panel per method and quantity, for a page; None if nothing was learned that can be shown."""
    from matplotlib.figure import Figure

    panels = _panels(arms)
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

    for panel in _panels(arms):
        drawn = Figure(figsize=CARD, dpi=DPI)
        drawn.subplots_adjust(0.13, 0.19, 0.97, 0.88)
        axes = drawn.add_subplot()
        axes.set_title(f"{_cut(panel.arm.first.name)}: {_cut(panel.name)}", fontsize=10)
        _draw(axes, panel, 8)
        yield f"{panel.arm.first.name}_{panel.name}", drawn


class _Panel(NamedTuple):
    arm: ArmResults
    name: str
    mean: Layers


def _panels(arms: Sequence[ArmResults]) -> list[_Panel]:
    return [_Panel(arm, name, of) for arm in arms for name, of in final_values(arm).items()]


def _cut(name: str, most: int = 28) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _draw(axes: Axes, panel: _Panel, size: float) -> None:
    """Draw a point per layer with a line per seed, or a map of layer and element; `size` is that of the labels."""
    if max(map(len, panel.mean.values())) > 1:
        bar = axes.figure.colorbar(heat_map(axes, panel.mean))
        bar.ax.tick_params(labelsize=size)
    else:
        _points(axes, panel)
    axes.tick_params(labelsize=size)
    axes.xaxis.label.set_fontsize(size + 1)
    axes.yaxis.label.set_fontsize(size + 1)


def _points(axes: Axes, panel: _Panel) -> None:
    for run in panel.arm.finished:
        seed = {int(layer): _elements(value)[0] for layer, value in run.probes.get(panel.name, {}).items()}
        axes.plot(list(seed), list(seed.values()), "-", color=COLOUR, lw=0.6, alpha=0.4)
    axes.plot(list(panel.mean), [value for (value,) in panel.mean.values()], "o-", color=COLOUR, ms=3, lw=1.2)
    layer_ticks(axes, list(panel.mean))
    axes.spines[["top", "right"]].set_visible(False)
