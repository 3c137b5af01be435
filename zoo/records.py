"""What a run leaves to read: `metrics.jsonl`, one JSON object a row, and the same figures as TensorBoard events.

A checkpoint keeps how long these files were (`marks`), and a run that goes on from it cuts them back to that length
first. So no row is ever there twice, and none of a future that was given up.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from zoo.events import PATTERN as EVENTS, Events
from zoo.files import write_atomically

if TYPE_CHECKING:
    import torch

    Probes = Mapping[str, Mapping[int, torch.Tensor]]  # name → layer, from 1 → value

METRICS = "metrics.jsonl"
# What the HParams tab compares runs by.
RESULTS = ("valid/loss", "valid/perplexity", "valid/bits_per_byte", "valid/accuracy", "train/loss")


def read(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The rows of a run, all or those of one kind; the half-written last line of a run under way is left out."""
    rows = []
    for line in (folder / METRICS).read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            rows.append(json.loads(line))
    return [row for row in rows if kind is None or row["kind"] == kind]


class Records:
    """The open records of a run, continued from `marks` (none: from the beginning)."""

    def __init__(self, folder: Path, marks: Mapping[str, int] | None = None, step: int = 0) -> None:
        self.folder = folder
        _cut_back(folder, marks or {})
        self._rows: IO[str] = (folder / METRICS).open("a", encoding="utf-8")
        self._events = Events(folder, purge_after=step if marks else None)

    def row(self, kind: str, step: int, figures: Mapping[str, float | int | str]) -> None:
        """Write one row; its numbers become scalars named `kind/figure`."""
        self._line(kind, step, {name: _json(value) for name, value in figures.items()})
        numbers = {f"{kind}/{name}": value for name, value in figures.items() if not isinstance(value, str)}
        self._events.scalars(numbers, step)

    def probes(self, step: int, probes: Probes) -> None:
        """Write what the layers have learned, a number a layer."""
        learned = probe_values(probes)
        if not learned:
            return
        by_layer = {name: {str(n): _json(value) for n, value in layers.items()} for name, layers in learned.items()}
        self._line("probes", step, {"probes": by_layer})
        numbers: dict[str, float] = {}
        for name, layers in learned.items():
            for layer, value in layers.items():
                if isinstance(value, list):
                    numbers |= {f"{_tag(name, layer)}/{i:02d}": each for i, each in enumerate(value, start=1)}
                else:
                    numbers[_tag(name, layer)] = value
        self._events.scalars(numbers, step)

    def figures(self, step: int, probes: Probes) -> None:
        """Draw each learned quantity against the layer."""
        from torch.utils.tensorboard._utils import figure_to_image
        from torch.utils.tensorboard.summary import image

        from zoo.review import probe_figures

        for name, figure in probe_figures(probes):
            self._events.summary(image(f"probes/{name}", figure_to_image(figure), dataformats="CHW"), step)

    def histograms(self, step: int, probes: Probes) -> None:
        """Write how the elements of vectors lie."""
        from torch.utils.tensorboard.summary import histogram

        for name, layers in probes.items():
            for layer, value in layers.items():
                if value.numel() > 1 and bool(value.isfinite().all()):
                    self._events.summary(histogram(_tag(name, layer), value.float().cpu().numpy(), "auto"), step)

    def _line(self, kind: str, step: int, figures: Mapping[str, Any]) -> None:
        self._rows.write(json.dumps({"kind": kind, "step": step, **figures}, allow_nan=False) + "\n")

    def describe(self, configuration: str, probes: Probes) -> None:
        """Write what holds for the whole run: its configuration, its hyper-parameters, which charts belong together."""
        from torch.utils.tensorboard.summary import custom_scalars, hparams, text

        self._events.summary(text("configuration", "```\n" + configuration.strip() + "\n```"))
        self._events.summary(custom_scalars(_layout(probes)))
        experiment, start, _ = hparams(hyper_parameters(configuration), dict.fromkeys(RESULTS, 0.0))
        # Into this very run, not into a run of its own below it, as add_hparams would: one run is one row of the tab.
        self._events.summary(experiment)
        self._events.summary(start)

    def end(self) -> None:
        """Tell the HParams tab that the run is over."""
        from torch.utils.tensorboard.summary import hparams

        self._events.summary(hparams({}, {})[2])

    def flush(self) -> None:
        """Hand everything to the system."""
        self._rows.flush()
        self._events.flush()

    def marks(self) -> dict[str, int]:
        """Bring the rows to the disk and say how long each file is."""
        self.flush()
        os.fsync(self._rows.fileno())
        files = [self.folder / METRICS, *sorted(self.folder.glob(EVENTS))]
        return {file.name: file.stat().st_size for file in files}

    def close(self) -> None:
        """Flush and close, both files in any case."""
        try:
            self._rows.close()
        finally:
            self._events.close()


def _cut_back(folder: Path, marks: Mapping[str, int]) -> None:
    rows = folder / METRICS
    if rows.exists():
        kept = rows.read_bytes()[: marks.get(METRICS, 0)].decode("utf-8", errors="replace")
        write_atomically(rows, kept[: kept.rfind("\n") + 1])
    for file in folder.glob(EVENTS):
        if file.name not in marks:
            file.unlink()
        elif file.stat().st_size > marks[file.name]:
            os.truncate(file, marks[file.name])


FEW = 32  # elements of a vector that are worth watching one by one


def probe_values(probes: Probes) -> dict[str, dict[int, float | list[float]]]:
    """What stands in files of a probe and layer: a number, the elements of a short vector, the mean of a long one."""
    import torch

    places = [(name, layer) for name, layers in probes.items() for layer in layers]
    found: dict[str, dict[int, float | list[float]]] = {name: {} for name, _ in places}
    if not places:
        return found
    parts = [probes[name][layer].float().flatten() for name, layer in places]
    parts = [part if part.numel() <= FEW else part.mean()[None] for part in parts]
    numbers = iter(torch.cat(parts).tolist())  # brought over from the device all at once
    for (name, layer), part in zip(places, parts, strict=True):
        values = [next(numbers) for _ in range(part.numel())]
        is_number = len(values) == 1 and (probes[name][layer].dim() == 0 or probes[name][layer].numel() > FEW)
        found[name][layer] = values[0] if is_number else values
    return found


def _tag(name: str, layer: int) -> str:
    return f"probes/{name}/layer_{layer:02d}"


def _layout(probes: Probes) -> dict[str, dict[str, list[Any]]]:
    """Charts of the custom-scalars tab: training beside validation, and all layers of a probe together."""
    charts = {}
    for name, layers in probes.items():
        for layer, value in layers.items():
            if value.dim() and value.numel() <= FEW:  # the elements of a layer together
                charts[f"{name}, layer {layer}"] = ["Multiline", [f"{re.escape(_tag(name, layer))}/"]]
            else:  # the layers together
                charts[name] = ["Multiline", [f"probes/{re.escape(name)}/layer_"]]
    layout: dict[str, dict[str, list[Any]]] = {"loss": {"loss": ["Multiline", ["train/loss", "valid/loss"]]}}
    return layout | ({"probes": charts} if charts else {})


def hyper_parameters(configuration: str) -> dict[str, float | int | str | bool]:
    """The bindings of a configuration as plain values; what is not a literal stays text."""
    parameters: dict[str, float | int | str | bool] = {}
    joined = re.sub(r"\\?\n[ \t]+", " ", configuration)  # continuation lines
    for line in joined.splitlines():
        name, equals, text = line.partition(" = ")
        if not equals or not re.fullmatch(r"[\w./%]+", name):
            continue
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            value = text.strip()
        parameters[name] = value if isinstance(value, bool | int | float | str) else text.strip()
    return parameters


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
