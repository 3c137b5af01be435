"""Each rank's eye on the others: who is where, who has gone silent, and whether torchrun is still there.

A thread of every rank writes into torchrun's store, twice a second, how often it has written and where the rank is.
torch only notices that an exchange failed, not why; from these notes a rank can say whom it waited for in vain.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.errors import RankError

if TYPE_CHECKING:
    import torch.distributed as dist

GRACE = 10.0  # seconds beyond the timeout, in which torch should have noticed it by itself
SETTLED = 2.0  # seconds without a sign of life: a rank whose connection broke is gone
GAVE_UP = "gave up"  # why a rank has ended that lost another one
CODE = 2  # of a process that the watch ends: as of any other error


class Note(NamedTuple):
    """What a rank last told of itself."""

    beat: int  # how often it has told
    place: str  # what it is doing
    exchanges: int  # how many it has entered
    left: str  # why it has ended, if it has


class Watch:
    """Tells the others where this rank is, and ends it when one of them is silent for longer than `timeout` seconds."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: float) -> None:
        self.rank = rank
        self.others = [other for other in range(size) if other != rank]
        self.timeout = timeout
        self.interval = min(0.5, timeout / 10)
        self._look_every = max(1, round(timeout / 20 / self.interval))  # beats; with many ranks it is many questions
        self.place = "starting"
        self._store: dist.Store | None = store
        self._exchanges = self._beat = 0
        self._left = ""
        self._heard: dict[int, tuple[int, int]] = {}  # rank → its last beat, and this rank's own when it came
        self._parent = os.getppid()
        self._deadline: float | None = None  # when this process ends in any case
        self._words = ""  # … and what it says then
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._tell()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def exchange(self, computes: bool = False) -> Iterator[None]:
        """Count an exchange with the other ranks, and turn one that fails into a sentence; it may compute on the way."""
        self._exchanges += 1
        try:
            yield
        except RuntimeError as error:
            if computes and not _is_about_connections(error):
                raise
            raise self._explained(error) from error

    def leave(self, error: BaseException) -> None:
        """Tell the others that this rank ends, and why. Should a lost rank keep it from ending, it is ended all the same."""
        self._left = GAVE_UP if isinstance(error, RankError) else f"{type(error).__name__}: {error}"
        self._words = str(error) if isinstance(error, RankError) and error.speaks else ""
        self._tell()
        self._deadline = time.monotonic() + GRACE

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    # -- the thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.wait(self.interval):
            self._tell()
            self._look_for_parent()
            silent = self._silent() if self._deadline is None and self._beat % self._look_every == 0 else []
            if silent:
                self._end(self._silence(silent) if self._speaks(silent) else "")
            if self._deadline and time.monotonic() > self._deadline:
                self._end(self._words)

    def _look_for_parent(self) -> None:
        """Without torchrun nobody would stop this process: it saves and stops, as if it had been told to, or just ends."""
        if self._parent and os.getppid() != self._parent:
            self._parent = 0
            self._store = None  # it was torchrun's
            self._deadline = time.monotonic() + self.timeout + GRACE
            os.kill(os.getpid(), signal.SIGTERM)

    def _silent(self) -> list[int]:
        """The ranks that have told nothing new for longer than the timeout, and for the time in which torch should notice."""
        notes = {rank: note for rank, note in self._notes().items() if not note.left}
        for rank, note in notes.items():
            if note.beat != self._heard.get(rank, (0, 0))[0]:
                self._heard[rank] = note.beat, self._beat
        # Counted in beats: a job that was suspended as a whole, and goes on, has lost none.
        long_ago = self._beat - (self.timeout + GRACE) / self.interval
        return [rank for rank in notes if self._heard[rank][1] < long_ago]

    def _silence(self, silent: list[int]) -> str:
        seconds = self.timeout + GRACE
        return (
            f"{_named(silent)} {_have(silent)} not been heard of for {seconds:,.0f} s: this run has ended, and the same"
            " command goes on from its last checkpoint"
        )

    def _end(self, words: str) -> None:
        """End this process, whose main thread waits for a rank that will not come."""
        if words:
            with contextlib.suppress(OSError):
                os.write(2, f"\nzoo-train: {words}\n".encode())
        os._exit(CODE)

    # -- notes ----------------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        self._beat += 1
        note = Note(self._beat, self.place, self._exchanges, self._left)
        with self._asking() as store:
            store.set(f"note/{self.rank}", json.dumps(note))

    def _notes(self) -> dict[int, Note]:
        """What the others have told; nothing where the store is gone."""
        notes: dict[int, Note] = {}
        with self._asking() as store:
            for rank in self.others:
                if store.check([f"note/{rank}"]):
                    notes[rank] = Note(*json.loads(store.get(f"note/{rank}")))
        return notes

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        """The store, for one thread at a time; once it is gone there is nothing to tell or to learn."""
        mine = self._lock.acquire(timeout=GRACE)
        try:
            yield self._store if mine else None  # else the other thread has asked and got no answer
        except (RuntimeError, AttributeError, ValueError):
            self._store = None
        finally:
            if mine:
                self._lock.release()

    # -- what happened --------------------------------------------------------------------------------------------------

    def _explained(self, error: RuntimeError) -> RankError:
        """Say which rank did not come to an exchange, by what each does in the time of some beats."""
        self._words, self._deadline = "another rank does not answer", time.monotonic() + 3 * GRACE
        mine, before = self._exchanges, self._notes()
        time.sleep(SETTLED)
        now = self._notes()
        left = [rank for rank in now if now[rank].left not in ("", GAVE_UP)]
        there = {rank: note for rank, note in now.items() if not note.left}
        lost = [rank for rank, note in there.items() if rank in before and note.beat == before[rank].beat]
        late = [rank for rank, note in there.items() if note.exchanges < mine]
        if not before and self._parent and self.rank:
            lost = [0]  # without torchrun the first rank keeps the store, and the store is gone
        what = self._fault(error, now, left, lost, late)
        return RankError(what, self._speaks(left + lost or late))

    def _fault(
        self, error: RuntimeError, notes: dict[int, Note], left: list[int], lost: list[int], late: list[int]
    ) -> str:
        """What the ranks did that left, that tell nothing more, and that are behind this one."""
        timed_out = bool(re.search(r"timed out|timeout", str(error), re.IGNORECASE))
        which = lost or late
        seen = f", last seen in {notes[which[0]].place}" if which and which[0] in notes else ""
        if left:
            return "; ".join(f"rank {rank} ended with {notes[rank].left}" for rank in left)
        if lost and not timed_out:
            return f"{_named(lost)} died{seen}"
        if which:
            return f"{_named(which)} {_have(which)} not answered for {self.timeout:g} s (train.rank_timeout){seen}"
        if timed_out:
            return f"the ranks have waited for each other for {self.timeout:g} s (train.rank_timeout), in {self.place}"
        return f"the connection to another rank broke in {self.place}: {str(error).splitlines()[0]}"

    def _speaks(self, lost: list[int]) -> bool:
        """Whether this is the first of the ranks that are left."""
        return self.rank == min({self.rank, *self.others} - set(lost))


def _is_about_connections(error: RuntimeError) -> bool:
    """Whether torch's exchange failed, rather than something that was computed."""
    import torch.distributed as dist

    known = r"gloo|nccl|timed out|timeout|connection|socket|broken pipe|peer|pair closure"
    return isinstance(error, dist.DistError) or bool(re.search(known, str(error), re.IGNORECASE))


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _have(ranks: list[int]) -> str:
    return "has" if len(ranks) == 1 else "have"
