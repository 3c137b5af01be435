"""Ctrl-C and SIGTERM: the step is finished and saved; the same signal again ends the process at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
BENCH = "ZOO_BENCH"  # in the environment of a run that a bench started: it holds the other end of the run's stdin


class Stop:
    """Listens for signals while it is entered; `signal` is the one that came first, or 0."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or number
        # From now on the system itself answers, even in the middle of a long matrix product.
        signal.signal(number, signal.SIG_DFL)
        if os.environ.get("RANK", "0") == "0":
            _tell(number)


def _tell(number: int) -> None:
    # A progress bar hides the cursor, and nobody could show it again after a second signal.
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
    again = "Ctrl-C again stops at once" if number == signal.SIGINT else "again stops at once"
    with contextlib.suppress(OSError):  # print could be interrupted while it prints
        os.write(2, f"{cursor}\n{signal.Signals(number).name}: finishing the step and saving; {again}\n".encode())


def end_with_bench() -> None:
    """Get SIGTERM, once, should the bench die that started this process, however it dies: a run saves and stops."""
    if os.environ.pop(BENCH, None):  # it is nothing to the processes that this one starts
        threading.Thread(target=_watch, args=(sys.stdin.fileno(),), daemon=True).start()


def _watch(pipe: int) -> None:
    while os.read(pipe, 1):  # the bench holds the other end and writes nothing: this returns when it is gone
        pass
    os.kill(os.getpid(), signal.SIGTERM)
