"""Progress of a run in lines, where there is no terminal, or not at all."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from zoo.system.clock import duration
from zoo.system.foreign_text import printable


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

    def busy(self, with_what: str, share: float | None = None) -> None:
        """Something other than training is under way; `share`: how much of it is done."""

    def training(self) -> None:
        """What was under way is over: the next step begins."""

    def say(self, text: str) -> None:
        """Show a line on something that happened; it may quote what others wrote, a plugin's errors or the keys of a file."""
        self._write(printable(text))

    def _write(self, line: str) -> None:
        """Write a line where it is seen."""


class Lines(Quiet):
    """One plain line for each thing worth one, and now and then as a sign of life.

    A line about a step comes after the first step; then when 5 % of the steps are done and 30 seconds have passed since
    the last line, so that a short run says little; and in any case after 5 minutes, so that a long one is not silent.
    """

    PART, SOON, LATE = 0.05, 30.0, 300.0

    def __init__(self, step: int, steps: int) -> None:
        self._steps = steps
        self._is_first = True
        self._line_step = self._from_step = step
        self._line_time = self._from_time = time.monotonic()

    def __enter__(self) -> Lines:
        self._line_time = self._from_time = time.monotonic()
        return self

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        now = time.monotonic()
        due = step < self._steps and (self._is_first or self._is_due(step, now))  # a validation follows the last one
        if due:
            left = (now - self._from_time) / (step - self._from_step) * (self._steps - step)
            self._line_step, self._line_time = step, now
            figures = f"loss {loss:.4f}  {tokens_per_second:,.0f} tokens/s  about {duration(left)} left"
            self.say(f"step {step:,}/{self._steps:,}  {figures}")
        if self._is_first:  # it may take far longer than the others: the time left is told without it from now on
            self._from_step, self._from_time, self._is_first = step, now, False

    def _is_due(self, step: int, now: float) -> bool:
        silent = now - self._line_time
        return silent >= self.LATE or (silent >= self.SOON and step - self._line_step >= self.PART * self._steps)

    def busy(self, with_what: str, share: float | None = None) -> None:
        now = time.monotonic()
        if share is not None and now - self._line_time >= self.SOON:
            self._line_time = now
            self.say(f"{with_what} {share:.0%}")

    def _write(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)
