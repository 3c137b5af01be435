"""Trackers beside TensorBoard: Weights & Biases and Trackio, off by default, and offline unless told otherwise.

A tracker is a guest: what it raises is reported once and ends the tracker, never the run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import gin

from zoo.errors import RunError, check_setting, nearest
from zoo.runs.tensorboard import hyper_parameters, scalar_tag
from zoo.system.foreign_text import one_line

PROJECT = "zoo"
Say = Callable[[str], None]


class Tracker(Protocol):
    """What a run asks of a tracker."""

    def log(self, step: int, scalars: Mapping[str, float]) -> None: ...
    def close(self) -> None: ...


class WeightsAndBiases:
    """A run of wandb in the run's own folder; `wandb sync` sends it later, WANDB_MODE=online at once."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        quiet = wandb.Settings(console="off", silent=True, x_disable_stats=True, init_timeout=30)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=folder.resolve().name,
            dir=str(folder),
            config=dict(settings),
            mode=mode,
            reinit="create_new",
            settings=quiet,
        )
        self._run.define_metric("*", step_metric="step")  # wandb's own only grows, and a run that resumes goes back

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self._run.log({"step": step, **scalars})

    def close(self) -> None:
        self._run.finish()


class Trackio:
    """A run of Trackio, in a database of this machine: `trackio show` looks at it."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        import trackio

        with contextlib.redirect_stdout(sys.stderr):  # it prints, and standard output is the command's
            self._run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", PROJECT),
                name=folder.resolve().name,
                config=dict(settings),
                resume="allow",
                embed=False,
            )

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self._run.log(dict(scalars), step=step)

    def close(self) -> None:
        from trackio import context_vars

        with contextlib.redirect_stdout(sys.stderr):
            self._run.finish()
        context_vars.current_run.set(None)  # else it finishes, and prints, once more when the process ends


TRACKERS: dict[str, Callable[[Path, Mapping[str, Any]], Tracker]] = {"wandb": WeightsAndBiases, "trackio": Trackio}
INSTALL = {"wandb": "pip install wandb", "trackio": "pip install 'transformer-zoo[trackio]'"}


@gin.register("records", module="zoo")
@dataclass(frozen=True)
class RecordSettings:
    """Who else gets the rows of metrics.jsonl.

    writers (of 'wandb', 'trackio'): trackers that get them too, beside TensorBoard; offline unless WANDB_MODE says otherwise,
        and one that fails is left out; may be changed when a run resumes.
    """

    writers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.writers:
            fits = name in TRACKERS and self.writers.count(name) == 1
            expected = f"some of {', '.join(map(repr, TRACKERS))}, each once{nearest(name, TRACKERS)}"
            check_setting("records.writers", self.writers, fits, expected)


class Trackers:
    """The trackers of a run that are still well."""

    def __init__(self, names: Sequence[str], folder: Path, configuration: str, say: Say) -> None:
        self._say = say
        self._open: dict[str, Tracker] = {}
        for name in names:
            if importlib.util.find_spec(name) is None:
                raise RunError(f"records.writers names {name!r}, which is not installed: {INSTALL[name]}")
        settings = hyper_parameters(configuration) if names else {}
        for name in names:
            self._guarded(name, lambda name=name: self._begin(name, folder, settings))  # type: ignore[misc]

    def _begin(self, name: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self._open[name] = TRACKERS[name](folder, settings)

    def row(self, kind: str, step: int, figures: Mapping[str, float | int | str]) -> None:
        """Log the numbers of a row under the names that TensorBoard has."""
        numbers = {scalar_tag(kind, name): float(each) for name, each in figures.items() if not isinstance(each, str)}
        for name, tracker in list(self._open.items()):
            self._guarded(name, lambda tracker=tracker: tracker.log(step, numbers))  # type: ignore[misc]

    def close(self) -> None:
        """End all of them."""
        for name, tracker in list(self._open.items()):
            self._guarded(name, tracker.close)
        self._open.clear()

    def _guarded(self, name: str, act: Callable[[], None]) -> None:
        """Do something with a tracker; if it fails, whatever it raises, say so and do without it."""
        try:
            act()
        except Exception as error:
            self._open.pop(name, None)
            reason = one_line(f"{type(error).__name__}: {error}", 200)
            self._say(f"the tracker {name} failed and is left out from here on; the run goes on: {reason}")
