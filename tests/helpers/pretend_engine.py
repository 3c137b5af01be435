"""An engine that carries attempts out in threads of this process, and loses those that a test names."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from pathlib import Path

from zoo.engines.attempt import Carrier
from zoo.engines.engine import Start, State
from zoo.engines.launcher import EngineLauncher, Patience

QUICK = Patience(beat=0.1, lost=1.5, grace=30.0, look=0.05)


class Thread(threading.Thread):
    """One attempt; what it raises is nobody's business, as in an engine."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__(daemon=True)
        self.carrier = carrier

    def run(self) -> None:
        try:
            self.carrier.run()
        except Exception as error:
            self.error = error


class PretendEngine:
    """Attempts in threads; `lost` of them, by name and number, never begin."""

    name = "pretend"

    def __init__(self, address: str, lost: Collection[tuple[str, int]] = ()) -> None:
        self.address, self.lost = address, set(lost)
        self.capacity = 100
        self.starts: list[Start] = []
        self.batches: list[int] = []
        self.threads: dict[str, Thread | None] = {}
        self.closed = False

    def start(self, starts: Sequence[Start]) -> list[str]:
        self.batches.append(len(starts))
        return [self._start(each) for each in starts]

    def _start(self, start: Start) -> str:
        handle = f"{start.name}-{start.number}"
        self.starts.append(start)
        self.threads[handle] = None
        if (start.name, start.number) not in self.lost:
            thread = self.threads[handle] = Thread(Carrier(self.address, start.name, start.number))
            thread.start()
        return handle

    def states(self, handles: Collection[str]) -> dict[str, State]:
        return {handle: "running" if self._lives(handle) else "gone" for handle in handles}

    def kill(self, handle: str) -> None:
        """As when a machine goes: the process is there no more, and nobody says so."""
        thread = self.threads.get(handle)
        if thread and (child := thread.carrier._child):
            thread.carrier._interrupted = True  # it writes no end
            child.kill()
            thread.join()

    def close(self) -> None:
        self.closed = True

    def _lives(self, handle: str) -> bool:
        thread = self.threads.get(handle)
        return thread is not None and thread.is_alive()


def engine_launcher(engine: PretendEngine, store: Path, lines: list[str], **options: object) -> EngineLauncher:
    """A launcher that waits less than a real one."""
    return EngineLauncher(engine, store, capacity=4, cores=1, say=lines.append, patience=QUICK, **options)  # type: ignore[arg-type]
