"""The bar that a terminal shows while a run trains. rich is imported here and nowhere else in training."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from zoo.system.clock import duration
from zoo.training.progress_lines import Quiet

# What is shown beside the step counter as far as there is room, the most important first, each with the columns it takes.
BAR, STATE, LEFT, SPEED = 5, 16, 9, 14  # the loss leaves some room for the speed


class Bar(Quiet):
    """A bar with loss, tokens/s and the time left; lines appear above it.

    What is not a step (validating, saving, the first step, which may have to compile) is shown in place of the loss, with
    its share or the time since it began: something on the line moves as long as the process lives.
    """

    def __init__(self, step: int, steps: int) -> None:
        console = Console(stderr=True)
        counter = len(f"{steps}/{steps}")
        self._loss = self._speed = ""
        self._busy: tuple[str, float | None, float] | None = None
        self._bar = Progress(
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            BarColumn(None),
            _Words(self, "state", console, counter + BAR + STATE),
            _Words(self, "speed", console, counter + BAR + STATE + LEFT + SPEED),
            _TimeLeft(console, counter + BAR + STATE + LEFT),
            console=console,
            refresh_per_second=2,  # each drawing takes a moment from the cores that train
        )
        self._task = self._bar.add_task("", total=steps, completed=step)

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._busy = None
        self._bar.stop()

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        self._busy = None
        self._loss, self._speed = f"loss {loss:.3f}", f"{tokens_per_second:,.0f} tokens/s"
        self._bar.update(self._task, completed=step)

    def training(self) -> None:
        self._busy = None
        if not self._loss:
            self.busy("first step")

    def busy(self, with_what: str, share: float | None = None) -> None:
        since = self._busy[2] if self._busy and self._busy[0] == with_what else time.monotonic()
        self._busy = (with_what, share, since)

    def _write(self, line: str) -> None:
        self._bar.console.print(Text(line))  # not a str, in which rich replaces :names: of pictures

    @property
    def state(self) -> str:
        """What is going on now: the loss, or what else keeps it busy."""
        if self._busy is None:
            return self._loss
        what, share, since = self._busy
        return f"{what} {share:.0%}" if share is not None else f"{what} {duration(time.monotonic() - since)}"

    @property
    def speed(self) -> str:
        """Tokens per second, while it trains."""
        return "" if self._busy else self._speed


class _Words(ProgressColumn):
    """A text of the bar, on a terminal that is wide enough for it."""

    def __init__(self, bar: Bar, name: str, console: Console, least: int) -> None:
        super().__init__(Column(no_wrap=True))
        self._of, self._name, self._console, self._least = bar, name, console, least

    def render(self, task: Task) -> Text:
        return Text(getattr(self._of, self._name) if self._console.width >= self._least else "")


class _TimeLeft(TimeRemainingColumn):
    """The time left, on a terminal that is wide enough for it."""

    def __init__(self, console: Console, least: int) -> None:
        super().__init__(compact=True, table_column=Column(no_wrap=True))
        self._console, self._least = console, least

    def render(self, task: Task) -> Text:
        return super().render(task) if self._console.width >= self._least else Text("")
