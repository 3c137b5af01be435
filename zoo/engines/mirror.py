"""The folder in which a bench works on a store that is no folder: files are brought here, and back when they change.

Of runs only what a report needs is here; their checkpoints go between the store and the machines that train them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from zoo.engines.board import FOLDER as ENGINE
from zoo.engines.places import UrlPlace
from zoo.engines.working_copy import CHECKPOINTS
from zoo.errors import ZooError
from zoo.runs.run_folder import begun
from zoo.system.files import TEMPORARY

HOLDER = "bench.json"  # who works on the store, with a count that grows as long as it lives
BEAT, BEATS = 2.0, 5  # seconds; after so many without a sign of life its holder is gone
ELSEWHERE = ("runs", ENGINE)  # folders of the store that are not brought here as a whole
LOCAL = ("bench.lock", HOLDER)


class Mirror:
    """A store behind an address, and the folder that stands for it here."""

    def __init__(self, address: str) -> None:
        self.place = UrlPlace(address)
        cache = os.environ.get("ZOO_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "zoo")
        name = hashlib.sha256(address.encode()).hexdigest()[:16]
        self.folder = Path(cache).expanduser().absolute() / "stores" / name
        self._seen: dict[str, tuple[int, int]] = {}

    def pull(self) -> None:
        """Bring the results and notes of the store here, in place of what an earlier bench left here."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in self.place.names("", deep=False):
            if name not in LOCAL:
                self.place.download(name, self.folder / name)
                self._note(name)

    def push(self) -> None:
        """Bring what has changed here to the store."""
        ours = [path for path in sorted(self.folder.iterdir()) if path.name not in (*ELSEWHERE, *LOCAL)]
        for path in (each for one in ours for each in (one, *sorted(one.rglob("*")))):
            name = path.relative_to(self.folder).as_posix()
            if path.is_file() and not name.endswith(TEMPORARY) and self._seen.get(name) != _stamp(path):
                self.place.upload(path, name)
                self._note(name)

    def fetch(self, folder: Path) -> None:
        """Bring what a run has left here, without its checkpoints."""
        name = self._name(folder)
        for each in self.place.names(name):
            if not each.startswith(f"{CHECKPOINTS}/"):
                self.place.download(f"{name}/{each}", folder / each)

    def hand_out(self, arguments: Sequence[str], folders: Sequence[Path]) -> None:
        """Bring the files that a task is started with to the store; a run that was set aside here is set aside there."""
        for argument in arguments:
            path = Path(argument)
            if path.is_absolute() and path.is_relative_to(self.folder) and path.is_file():
                self.place.upload(path, self._name(path))
        for folder in folders:
            name = self._name(folder)
            if not begun(folder) and self.place.read(f"{name}/config.gin") is not None:
                self.place.move(name, f"{name}-before-{uuid.uuid4().hex[:8]}")

    @contextlib.contextmanager
    def held(self, say: Callable[[str], None]) -> Iterator[None]:
        """One bench at a time, whatever machine it is on; what has changed is brought back at the end."""
        own, over = uuid.uuid4().hex, threading.Event()
        self._refuse_another(say)
        self._sign(own, 0)
        thread = threading.Thread(target=self._keep_signing, args=(own, over), daemon=True)
        time.sleep(BEAT / 4)
        if self._holder()[0] != own:
            raise ZooError(_taken(self.place.address))
        thread.start()
        try:
            self.pull()
            yield
        finally:
            over.set()
            thread.join()
            self.push()
            if self._holder()[0] == own:
                self.place.remove(HOLDER)

    def _refuse_another(self, say: Callable[[str], None]) -> None:
        before = self._holder()
        if before == ("", 0):
            return
        say(f"{self.place.address} names a bench that works on it: waiting {BEAT * BEATS:g} s for a sign of life")
        until = time.monotonic() + BEAT * BEATS
        while time.monotonic() < until:
            time.sleep(BEAT / 2)
            if (now := self._holder()) != before:
                if now == ("", 0):
                    return
                raise ZooError(_taken(self.place.address))

    def _keep_signing(self, own: str, over: threading.Event) -> None:
        count = 0
        while not over.wait(BEAT):
            count += 1
            with contextlib.suppress(OSError):  # the network: the next beat may go through
                self._sign(own, count)

    def _sign(self, own: str, count: int) -> None:
        self.place.write(HOLDER, json.dumps({"bench": own, "count": count}).encode())

    def _holder(self) -> tuple[str, int]:
        """Who works on the store, and its last sign of life."""
        try:
            row = json.loads(self.place.read(HOLDER) or b"{}")
            return str(row.get("bench", "")), int(row.get("count", 0))
        except (ValueError, TypeError, AttributeError):
            return "?", 0

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _note(self, name: str) -> None:
        self._seen[name] = _stamp(self.folder / name)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _taken(address: str) -> str:
    return f"another zoo-bench is working on {address}: wait for it, or name another store"
