"""What TensorBoard shows beyond scalars: the learned quantities of all layers in one figure each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from zoo.records import FEW

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

Layers = Mapping[int, "torch.Tensor"]  # layer, from 1 → value


def probe_figures(probes: Mapping[str, Layers]) -> Iterator[tuple[str, Figure]]:
    """For each probe its weight against the layer: points for numbers, a map for a few elements, a range for many."""
    from matplotlib.figure import Figure

    for name, layers in probes.items():
        if not all(bool(value.isfinite().all()) for value in layers.values()):
            continue
        values = {layer: value.detach().float().cpu().flatten() for layer, value in layers.items()}
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.add_subplot()
        longest = max(value.numel() for value in values.values())
        if longest == 1:
            axes.plot(list(values), [value.item() for value in values.values()], "o-")
            axes.set_ylabel(name)
        elif longest <= FEW:
            grid = [[float("nan")] * longest for _ in values]
            for row, value in zip(grid, values.values(), strict=True):
                row[: value.numel()] = value.tolist()
            drawn = axes.imshow(grid, aspect="auto", origin="lower", cmap="viridis")
            axes.set_xticks(range(longest), [str(n + 1) for n in range(longest)])
            axes.set_yticks(range(len(values)), [str(layer) for layer in values])
            axes.set_xlabel("element")
            figure.colorbar(drawn, label=name)
        else:
            axes.plot(list(values), [value.mean().item() for value in values.values()], "o-", label="mean")
            low, high = ([getattr(value, end)().item() for value in values.values()] for end in ("min", "max"))
            axes.fill_between(list(values), low, high, alpha=0.2, label="least to largest")
            axes.set_ylabel(name)
            axes.legend()
        if longest == 1 or longest > FEW:
            axes.set_xlabel("layer")
            axes.set_xticks(list(values))
        else:
            axes.set_ylabel("layer")
        axes.set_title(f"{name} at the last step", fontsize=10)
        yield name, figure
