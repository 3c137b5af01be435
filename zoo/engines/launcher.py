"""A launcher for engines: what ended, lives or is lost is seen in the store, and what did not end is started again."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zoo.bench.devices import VISIBLE
from zoo.bench.launch import TRAIN, Ending, Failure, Task, last_lines
from zoo.engines.board import Attempt, Beat, Board, End, Order, StopRequest
from zoo.engines.engine import Engine, Start, State
from zoo.engines.mirror import Mirror
from zoo.engines.places import FolderPlace, Place
from zoo.runs.metrics import last_step

BEAT = 2.0  # seconds between two signs of life
LOST = 60.0  # seconds without one after which an attempt is lost
GRACE = 120.0  # seconds for attempts to save and stop
LOOK = 0.5  # seconds between two looks at the store
PER_TASK = 0.01  # seconds more for each task that is looked after: a file server has others to serve
# Attempts, one after the other, that left no newer checkpoint, after which a task has failed: it said so itself, or was lost.
IN_VAIN, LOSSES = 3, 10
PASSED_ON = ("PYTHONPATH", "XDG_CACHE_HOME", "ZOO_CACHE", "HF_HOME", "HF_HUB_OFFLINE")  # of the bench's environment


@dataclass(frozen=True)
class Patience:
    """Seconds of waiting, of which tests have less."""

    beat: float = BEAT
    lost: float = LOST
    grace: float = GRACE
    look: float = LOOK


FAR = Patience(beat=10.0, lost=180.0, grace=300.0, look=5.0)  # where a look costs a request


@dataclass
class _Followed:
    """A task and the newest attempt at it, as it is seen here."""

    task: Task
    board: Board
    attempt: Attempt
    beat: Beat | None = None
    changed: float = field(default_factory=time.monotonic)  # when the last sign of life came, by this machine's clock
    refused: bool = False  # the task ended by itself, without success

    @property
    def saved(self) -> int:
        return max(self.attempt.saved, self.beat.saved if self.beat else 0)


class EngineLauncher:
    """Tasks through an engine. One that is lost is started again, from its last checkpoint, wherever there is room.

    `gpus`: whether the engine gives GPUs to tasks; without, they see none, so that no two are on one by chance. `leave`: when
    the bench ends, its attempts go on, and the next bench finds them.
    """

    def __init__(
        self,
        engine: Engine,
        store: Path,
        *,
        capacity: int,
        cores: int,
        say: Callable[[str], None],
        gpus: bool = False,
        leave: bool = False,
        mirror: Mirror | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.capacity, self.cores, self.measures = capacity, cores, False
        self._engine, self._store, self._say, self._mirror = engine, store, say, mirror
        self._gpus, self._leave = gpus, leave
        self._place: Place = mirror.place if mirror else FolderPlace(store)
        self._patience = patience or (FAR if mirror else Patience())
        self._followed: dict[str, _Followed] = {}
        self._waiting: list[str] = []  # to be handed to the engine together

    def submit(self, task: Task) -> None:
        name = task_name(task)
        board = Board(self._place, name)
        attempt = self._unended(board)
        if attempt is None:
            last = board.read(Attempt)
            attempt = Attempt(last.number + 1 if last else 1, "")
            self._hand_out(task, board)
            self._waiting.append(name)
        else:
            self._say(f"{task.title}: an earlier bench began it; this one waits for it")
        self._followed[name] = _Followed(task, board, attempt)

    def wait(self, seconds: float) -> list[Ending]:
        self._start()
        until = time.monotonic() + seconds
        while not (endings := self._endings()) and time.monotonic() < until:
            time.sleep(max(self._patience.look, PER_TASK * len(self._followed)))
        if self._mirror:
            self._mirror.push()
        return endings

    def stop(self) -> None:
        try:
            if self._leave and self._followed:
                self._say(f"{len(self._followed)} of its tasks go on; the same command finds them")
            elif self._followed:
                self._stop_all()
        finally:
            self._engine.close()

    def fetch(self, folder: Path) -> None:
        if self._mirror:
            self._mirror.fetch(folder)

    def under_way(self, folder: Path) -> bool:
        return self._unended(Board(self._place, folder.name)) is not None

    def step(self, folder: Path) -> int:
        followed = self._followed.get(folder.name)
        return followed.beat.step if followed and followed.beat else last_step(folder)

    def _unended(self, board: Board) -> Attempt | None:
        """The newest attempt at a task, if an earlier bench started it and it was not seen to end."""
        attempt, end = board.read(Attempt), board.read(End)
        if attempt is None or (end is not None and end.number >= attempt.number):
            return None
        request = board.read(StopRequest)
        is_stopped = request is not None and request.number >= attempt.number
        is_gone = attempt.handle and self._engine.states([attempt.handle])[attempt.handle] == "gone"
        return None if is_stopped or is_gone else attempt

    def _hand_out(self, task: Task, board: Board) -> None:
        """Write down what is to be run."""
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        if not (self._gpus and task.accelerated):
            environment[VISIBLE] = ""
        order = Order(
            title=task.title,
            module=task.module,
            arguments=list(task.arguments),
            cores=task.cores,
            store=str(self._store),
            folders=list(map(str, task.folders)),
            cwd=os.getcwd(),
            environment=environment,
            beat=self._patience.beat,
        )
        if self._mirror:
            self._mirror.hand_out(task.arguments, task.folders)
        board.write(order)

    def _start(self) -> None:
        """Hand what waits to the engine, together: an engine may make one array of it."""
        each = [self._followed[name] for name in self._waiting]
        if not each:
            return
        for followed in each:
            followed.board.write(followed.attempt)
        handles = self._engine.start(
            [Start(name, f.attempt.number, f.task.accelerated) for name, f in zip(self._waiting, each, strict=True)]
        )
        self._waiting = []
        for followed, handle in zip(each, handles, strict=True):
            number, saved, vain = followed.attempt.number, followed.attempt.saved, followed.attempt.vain
            followed.attempt = Attempt(number, handle, saved, vain)
            followed.changed = time.monotonic()
            followed.board.write(followed.attempt)

    def _endings(self) -> list[Ending]:
        endings = []
        states = self._states()
        for name, followed in list(self._followed.items()):
            reason = self._reason(followed, states.get(followed.attempt.handle, "running"))
            if reason is None or name in self._waiting:
                continue
            if not reason:
                for folder in followed.task.folders:
                    self.fetch(folder)
                endings.append(Ending(followed.task))
                del self._followed[name]
            elif failure := self._again(name, followed, reason):
                endings.append(Ending(followed.task, failure))
                del self._followed[name]
        self._start()
        return endings

    def _states(self) -> Mapping[str, State]:
        return self._engine.states([f.attempt.handle for f in self._followed.values() if f.attempt.handle])

    def _reason(self, followed: _Followed, state: State) -> str | None:
        """Why the newest attempt is over without success; empty: it succeeded; None: it is not over."""
        number = followed.attempt.number
        beat, end = followed.board.read(Beat), followed.board.read(End)
        if beat and beat.number == number and (followed.beat is None or beat.count != followed.beat.count):
            if followed.beat is None:
                self._say(f"{followed.task.title}: on {beat.host}; log: {self._log(followed)}")
            followed.beat, followed.changed = beat, time.monotonic()
        if end and end.number == number:
            followed.refused = 0 < end.code < 128
            return "" if end.code == 0 else ended(end.code)
        if state == "waiting":
            followed.changed = time.monotonic()
        has_begun = followed.beat is not None or not followed.attempt.handle
        is_silent = has_begun and time.monotonic() - followed.changed > self._patience.lost
        if state == "gone" or is_silent:
            return f"lost on {followed.beat.host}" if followed.beat else "lost before it began"
        return None

    def _again(self, name: str, followed: _Followed, reason: str) -> Failure | None:
        """Start a task again; how it failed, where attempts were in vain."""
        attempt, saved = followed.attempt, followed.saved
        vain = 0 if saved > attempt.saved else attempt.vain + 1
        if attempt.handle:
            self._engine.kill(attempt.handle)
        if vain >= (IN_VAIN if followed.refused else LOSSES):
            printed = self._place.read(followed.board.log(attempt.number)) or b""
            return Failure(reason, last_lines(printed.decode(errors="replace")))
        self._say(f"{followed.task.title}: {reason}; started again" + (f" from step {saved}" if saved else ""))
        self._hand_out(followed.task, followed.board)
        followed.attempt = Attempt(attempt.number + 1, "", saved, vain)
        followed.beat, followed.refused = None, False
        self._waiting.append(name)
        return None

    def _stop_all(self) -> None:
        """Ask every attempt to save and stop, wait for that, and end what is left."""
        states = self._states()
        for name, followed in list(self._followed.items()):
            handle = followed.attempt.handle
            if handle:
                followed.board.write(StopRequest(followed.attempt.number))
            if not followed.beat or states.get(handle) == "waiting":  # it is in the engine's queue, or in none yet
                self._engine.kill(handle) if handle else None
                del self._followed[name]
        until = time.monotonic() + self._patience.grace
        while self._followed and time.monotonic() < until:
            states = self._states()
            for name, followed in list(self._followed.items()):
                if self._reason(followed, states.get(followed.attempt.handle, "running")) is not None:
                    del self._followed[name]
            time.sleep(self._patience.look)
        for followed in self._followed.values():
            self._engine.kill(followed.attempt.handle)
        self._followed.clear()

    def _log(self, followed: _Followed) -> str:
        return f"{self._place.address}/{followed.board.log(followed.attempt.number)}"


def task_name(task: Task) -> str:
    """The name of a task in the store: that of the run it trains, else one that its arguments give."""
    if task.module == TRAIN and len(task.folders) == 1:
        return task.folders[0].name
    module = task.module.rpartition(".")[2]
    return f"{module}-{hashlib.sha256(repr(task.arguments).encode()).hexdigest()[:16]}"


def ended(code: int) -> str:
    """How an attempt ended that did not succeed, in words."""
    if code < 0:
        return f"killed by signal {-code}"
    return f"stopped by signal {code - 128}" if code >= 128 else f"exit code {code}"
