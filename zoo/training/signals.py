"""Ctrl-C, SIGTERM and their like: the step is finished and saved; another signal ends the process at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

# Ctrl-C; what kill and torchrun send; a terminal that is closed; what schedulers send some time before they kill; the
# limit of CPU time.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
ALWAYS = (signal.SIGINT, signal.SIGTERM)  # also listened to where they were ignored; the others not, as nohup asks
# The system repeats these by itself: shell and kernel tell of one closed terminal each, a used-up limit is told every second.
REPEATED = (signal.SIGHUP, signal.SIGXCPU)
BENCH = "ZOO_BENCH"  # in the environment of a run that a bench started: it holds the other end of the run's stdin


class Stop:
    """Listens for signals while it is entered; `signal` is the one that came first, or 0."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            heard = [each for each in SIGNALS if each in ALWAYS or signal.getsignal(each) != signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or number
        # From now on the system itself answers, even in the middle of a long matrix product.
        for each in self._before:
            signal.signal(each, signal.SIG_IGN if each in REPEATED else signal.SIG_DFL)
        if os.environ.get("RANK", "0") == "0":
            _tell(number)


def _tell(number: int) -> None:
    # A progress bar hides the cursor, and nobody could show it again after a second signal.
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
    once_more = {signal.SIGINT: "Ctrl-C again"} | dict.fromkeys(REPEATED, "Ctrl-C or SIGTERM")
    again = f"{once_more.get(signal.Signals(number), 'again')} stops at once"
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
