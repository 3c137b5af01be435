"""Learned values over the steps of a run, and when figures of them are drawn."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

POINTS = 400  # of a line; no more can be told apart in a figure
FRAMES = 10  # figures of a quantity in a run: TensorBoard's slider keeps as many
SHARE = 0.01  # of the training time that drawing may take
FIRST = 1.0  # seconds that the first drawing is expected to take, with the imports that it needs


class Trace:
    """The values of every probe, element by element; a long run is thinned out."""

    def __init__(self) -> None:
        self._points: dict[str, dict[int, list[tuple[int, list[float]]]]] = {}

    def add(self, step: int, learned: Mapping[str, Mapping[int, Any]]) -> None:
        """Append the values of a step; None, as it stands in files, is NaN."""
        for name, layers in learned.items():
            for layer, value in layers.items():
                numbers = [
                    math.nan if each is None else each for each in (value if isinstance(value, list) else [value])
                ]
                points = self._points.setdefault(name, {}).setdefault(layer, [])
                points.append((step, numbers))
                if len(points) > POINTS:
                    del points[1:-1:2]

    def lines(self, name: str, element: int = 0) -> dict[int, list[tuple[int, float]]]:
        """Steps and values of an element of a probe, by layer; a number has one element."""
        lines = {
            layer: [(step, numbers[element]) for step, numbers in points if element < len(numbers)]
            for layer, points in self._points.get(name, {}).items()
        }
        return {layer: points for layer, points in lines.items() if points}


class Pace:
    """Decides at which validations of a session figures are drawn."""

    def __init__(self, step: int = 0) -> None:
        self.drawn = step  # where the last figures were drawn, or the session began
        self._spent = 0.0  # seconds
        self._expected = FIRST  # seconds of the next drawing

    def due(self, step: int, steps: int, seconds: float) -> bool:
        """Tell whether to draw at this step of `steps`, after so many seconds of training; the end is drawn anyway."""
        apart = step - self.drawn >= steps / FRAMES
        return apart and step < steps and self._spent + self._expected <= SHARE * seconds

    @contextlib.contextmanager
    def drawing(self, step: int) -> Iterator[None]:
        """Measure a drawing."""
        began = time.perf_counter()
        yield
        self._expected = time.perf_counter() - began
        self._spent += self._expected
        self.drawn = step
