"""What one sees while it trains: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


class Quiet:
    """Shows nothing: for other ranks than the first, and for programs."""

    def __enter__(self) -> Quiet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        """A step is done."""

    def say(self, text: str) -> None:
        """Something worth a line happened."""


class Lines(Quiet):
    """One plain line for each thing worth one."""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Bar(Quiet):
    """A bar with loss, tokens/s and the time left; lines appear above it."""

    def __init__(self, step: int, steps: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar: Progress = Progress(
            MofNCompleteColumn(),
            BarColumn(None),
            TextColumn("{task.fields[loss]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
            refresh_per_second=2,  # each drawing takes a moment from the cores that train
        )
        self._task = self._bar.add_task("", total=steps, completed=step, loss="", speed="")

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        self._bar.update(
            self._task, completed=step, loss=f"loss {loss:.3f}", speed=f"{tokens_per_second:,.0f} tokens/s"
        )

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)


def progress(step: int, steps: int, show: bool) -> Quiet:
    """The right one for where it is seen."""
    if not show:
        return Quiet()
    return Bar(step, steps) if sys.stderr.isatty() else Lines()
