"""What a run measures: `metrics.jsonl`, one JSON object per row, and the same figures as TensorBoard events.

A checkpoint keeps how long these files were (`marks`), and a run that goes on from it cuts them back to that length
first. So no row is ever there twice, and none of a future that was given up.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from zoo.errors import RunError
from zoo.runs.event_file import PATTERN as EVENTS
from zoo.runs.probe_figures import FEW
from zoo.runs.tensorboard import TensorBoard
from zoo.runs.trackers import Trackers
from zoo.system.files import write_atomically
from zoo.system.regular_files import parse_object, read_regular

if TYPE_CHECKING:
    import torch

    Probes = Mapping[str, Mapping[int, torch.Tensor]]  # name → layer, from 1 → value

METRICS = "metrics.jsonl"
TAIL = 4096  # bytes of a file in which its last row is looked for


def read_rows(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The rows of a run, all or those of one kind; what is no row, such as a line under way, is left out."""
    file = folder / METRICS
    try:
        lines = read_regular(file).split(b"\n")[:-1]
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}") from error
    rows = []
    for line in lines:
        with contextlib.suppress(ValueError):
            rows.append(parse_object(line))
    return [row for row in rows if kind is None or row.get("kind") == kind]


def last_step(folder: Path) -> int:
    """The last step that a run has logged."""
    try:
        with (folder / METRICS).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, TypeError, KeyError):
            continue
    return 0


class Records:
    """The open records of a run, continued from `marks` (none: from the beginning)."""

    def __init__(
        self,
        folder: Path,
        marks: Mapping[str, int] | None = None,
        step: int = 0,
        trackers: Trackers | None = None,
    ) -> None:
        self.folder, self._trackers = folder, trackers
        _cut_back(folder, marks or {})
        self._rows: IO[str] = (folder / METRICS).open("a", encoding="utf-8")
        self.tensorboard = TensorBoard(folder, step, resumes=bool(marks))
        for row in read_rows(folder, "probes"):
            by_layer = {name: {int(n): value for n, value in layers.items()} for name, layers in row["probes"].items()}
            self.tensorboard.trace(row["step"], by_layer)

    def row(self, kind: str, step: int, figures: Mapping[str, float | int | str]) -> None:
        """Write one row; its numbers become scalars of TensorBoard too."""
        self._line(kind, step, {name: _json(value) for name, value in figures.items()})
        self.tensorboard.scalars(kind, step, figures)
        if self._trackers:
            self._trackers.row(kind, step, figures)

    def probes(self, step: int, probes: Probes) -> None:
        """Write what the layers have learned; TensorBoard gets figures of it."""
        learned = probe_values(probes)
        if not learned:
            return
        by_layer = {name: {str(n): _json(value) for n, value in layers.items()} for name, layers in learned.items()}
        self._line("probes", step, {"probes": by_layer})
        self.tensorboard.trace(step, learned)

    def _line(self, kind: str, step: int, figures: Mapping[str, Any]) -> None:
        self._rows.write(json.dumps({"kind": kind, "step": step, **figures}, allow_nan=False) + "\n")

    def flush(self) -> None:
        """Hand everything to the system."""
        self._rows.flush()
        self.tensorboard.flush()

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
            self.tensorboard.close()
            if self._trackers:
                self._trackers.close()


def _content(rows: Path) -> bytes:
    try:
        return read_regular(rows)
    except OSError as error:
        raise RunError(f"{rows} cannot be read: {error.strerror or error}; remove it") from error


def _cut_back(folder: Path, marks: Mapping[str, int]) -> None:
    rows = folder / METRICS
    if rows.exists():
        text = _content(rows)[: marks.get(METRICS, 0)].decode("utf-8", errors="replace")
        write_atomically(rows, text[: text.rfind("\n") + 1])
    for file in folder.glob(EVENTS):
        if file.name not in marks:
            file.unlink()
        elif file.stat().st_size > marks[file.name]:
            os.truncate(file, marks[file.name])


def probe_values(probes: Probes) -> dict[str, dict[int, float | list[float]]]:
    """What stands in files of a probe and layer: a number, the elements of a short vector, the mean of a long one."""
    import torch

    places = [(name, layer) for name, layers in probes.items() for layer in layers]
    values_of: dict[str, dict[int, float | list[float]]] = {name: {} for name, _ in places}
    if not places:
        return values_of
    parts = [probes[name][layer].float().flatten() for name, layer in places]
    parts = [part if part.numel() <= FEW else part.mean()[None] for part in parts]
    numbers = iter(torch.cat(parts).tolist())  # brought over from the device all at once
    for (name, layer), part in zip(places, parts, strict=True):
        values = [next(numbers) for _ in range(part.numel())]
        is_number = len(values) == 1 and (probes[name][layer].dim() == 0 or probes[name][layer].numel() > FEW)
        values_of[name][layer] = values[0] if is_number else values
    return values_of


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
