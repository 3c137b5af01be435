"""One attempt at a task of a bench, on the machine where an engine has started it.

The task's process is a child that ends with this one. Meanwhile signs of life go to the store, and what the bench asks
for is read from there; the engine is not needed for either.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from types import TracebackType
from typing import IO

from zoo.bench.launch import task_environment
from zoo.engines.board import Attempt, Beat, Board, End, Order, StopRequest
from zoo.engines.places import open_place
from zoo.engines.working_copy import CHECKPOINTS, WorkingCopy, working_copy
from zoo.errors import ZooError
from zoo.runs.checkpoint import listed
from zoo.runs.metrics import last_step
from zoo.runs.run_folder import wait_until_free

PATIENCE = 60.0  # seconds for the process of an earlier attempt to save and stop
STOPPED = 128 + signal.SIGTERM


class Carrier:
    """Carries out one attempt; `deaf`: the task itself hears no SIGUSR2, which an engine sends to all its processes."""

    def __init__(self, address: str, name: str, number: int, deaf: bool = False) -> None:
        self.address, self.name, self.number, self._deaf = address, name, number, deaf
        self._child: subprocess.Popen[bytes] | None = None
        self._interrupted = False

    def run(self) -> int:
        """Run the task to its end; its exit code."""
        place = open_place(self.address)
        board = Board(place, self.name)
        if (order := board.read(Order)) is None:
            raise ZooError(f"{self.address} has no order for {self.name}: does {socket.gethostname()} see the store?")
        with Beats(board, self.number, order.beat) as beats:
            if beats.superseded:
                return STOPPED
            with working_copy(order, place, board.log(self.number)) as copy:
                beats.copy = copy
                code = self._code(order, copy, beats)
                if not beats.superseded:
                    copy.bring_all()
            if not (beats.superseded or self._interrupted):
                board.write(End(self.number, code))
        return code

    def interrupt(self) -> None:
        """Let the task save and stop, and wait for it: the machine is taken away, and the engine will start it again.

        A signal handler may call this while `run` is under way in the same thread.
        """
        self._interrupted = True
        if self._child:
            with contextlib.suppress(ProcessLookupError):
                self._child.terminate()
            with contextlib.suppress(ChildProcessError):  # not Popen.wait: this may interrupt it, and it holds a lock
                os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOWAIT)

    def _code(self, order: Order, copy: WorkingCopy, beats: Beats) -> int:
        for folder in copy.folders:
            wait_until_free(folder, PATIENCE)
        if beats.stopping or beats.superseded or self._interrupted:
            return STOPPED
        with copy.log.open("ab") as log, self._process(order, copy, log) as self._child:
            asked = False
            while True:
                try:
                    return self._child.wait(order.beat / 2)
                except subprocess.TimeoutExpired:
                    pass
                if beats.superseded:
                    self._child.kill()
                elif beats.stopping and not asked:
                    self._child.terminate()
                    asked = True
                copy.bring()

    def _process(self, order: Order, copy: WorkingCopy, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", order.module, *map(copy.argument, order.arguments)],
            env={**task_environment(order.cores), **order.environment},
            cwd=order.cwd if os.path.isdir(order.cwd) else None,
            stdin=subprocess.PIPE,  # ends with this process: see zoo.training.signals.end_with_bench
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            preexec_fn=_ignore_preemption if self._deaf else None,
        )


class Beats:
    """Signs of life, in a thread of their own; they also bring the news that the attempt is to stop."""

    def __init__(self, board: Board, number: int, seconds: float) -> None:
        self.copy: WorkingCopy | None = None  # whose progress is told
        self.stopping = self.superseded = False
        self._board, self._number, self._seconds, self._count = board, number, seconds, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> Beats:
        self._beat()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._over.wait(self._seconds):
            self._beat()

    def _beat(self) -> None:
        newest, request = self._board.read(Attempt), self._board.read(StopRequest)
        self.superseded = self.superseded or (newest is not None and newest.number > self._number)
        self.stopping = self.stopping or (request is not None and request.number >= self._number)
        if self.superseded:
            return
        self._count += 1
        step, saved = self._progress()
        with contextlib.suppress(OSError):  # a store that cannot be reached now may be reached at the next beat
            self._board.write(Beat(self._number, self._count, socket.gethostname(), step, saved))

    def _progress(self) -> tuple[int, int]:
        """The last step that was logged, and that of the newest checkpoint, over all folders."""
        folders = self.copy.folders if self.copy else []
        steps = [last_step(folder) for folder in folders]
        saved = [each.step for folder in folders for each in listed(folder / CHECKPOINTS)[-1:]]
        return sum(steps), sum(saved)


def _ignore_preemption() -> None:
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
