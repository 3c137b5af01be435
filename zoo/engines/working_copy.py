"""The folders that an attempt works in: those of the store itself, or copies where the store is no folder.

A copy is brought back at every new checkpoint and at the end, in an order in which every moment is one to go on from:
records before the checkpoint that says how long they were, a new checkpoint before an old one goes, the summary last.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Protocol

from zoo.engines.board import Order
from zoo.engines.places import Place, UrlPlace
from zoo.runs.checkpoint import listed
from zoo.runs.run_folder import LOCK
from zoo.system.files import TEMPORARY

CHECKPOINTS = "checkpoints"
LAST = ("summary.json", "test.json")  # what says that something is over
TRIES, PAUSE = 4, 5.0  # at the end, when the network fails: so many times, with so many seconds between them


class WorkingCopy(Protocol):
    """Where the files of a task are on this machine."""

    folders: list[Path]
    log: Path

    def argument(self, text: str) -> str:
        """An argument of the task, as it is on this machine."""

    def bring(self) -> None:
        """Bring what has a new checkpoint to the store."""

    def bring_all(self) -> None:
        """Bring everything to the store; an `OSError` where that fails again and again."""


class SharedFolders:
    """The folders of the store, which this machine sees."""

    def __init__(self, order: Order, log: Path) -> None:
        self.folders = [Path(folder) for folder in order.folders]
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)

    def argument(self, text: str) -> str:
        return text

    def bring(self) -> None:
        pass

    def bring_all(self) -> None:
        pass


class Copies:
    """Copies of the folders, in a scratch folder of this machine."""

    def __init__(self, order: Order, place: UrlPlace, scratch: Path, log: str) -> None:
        self._order, self._place, self._scratch, self._log_name = order, place, scratch, log
        self.log = scratch / "log.txt"
        self.folders = [Path(self.argument(folder)) for folder in order.folders]
        self._newest: dict[Path, str] = {}
        self._sent: dict[Path, tuple[int, int]] = {}
        for name in filter(None, map(self._name, order.arguments)):
            if name in map(self._name, order.folders):
                self._fetch(name)
            else:
                place.download(name, scratch / name)

    def argument(self, text: str) -> str:
        name = self._name(text)
        return str(self._scratch / name) if name else text

    def bring(self) -> None:
        with contextlib.suppress(OSError):  # the network, or a checkpoint that a newer one has replaced: the next time
            for folder in self.folders:
                if _newest(folder) != self._newest.get(folder, ""):
                    self._send(folder)
                    self._send_log()

    def bring_all(self) -> None:
        for left in reversed(range(TRIES)):
            try:
                for folder in self.folders:
                    self._send(folder)
                return self._send_log()
            except OSError:
                if not left:
                    raise
                time.sleep(PAUSE)

    def _name(self, text: str) -> str:
        """The name in the store of a file or folder that an argument names; empty for other arguments."""
        path, store = PurePosixPath(text), PurePosixPath(self._order.store)
        return str(path.relative_to(store)) if path.is_absolute() and path.is_relative_to(store) else ""

    def _fetch(self, name: str) -> None:
        folder = self._scratch / name
        for each in self._place.names(name):
            self._place.download(f"{name}/{each}", folder / each)
            self._note(folder / each)
        if folder.is_dir():
            self._newest[folder] = _newest(folder)

    def _send(self, folder: Path) -> None:
        if not folder.is_dir():
            return
        newest, checkpoints = _newest(folder), [each.path for each in listed(folder / CHECKPOINTS)]
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and _is_kept(path)]
        others = [path for path in files if path.parent.name != CHECKPOINTS and path.name not in (*LAST, "config.gin")]
        described = [path for path in files if path == folder / "config.gin"]  # the last thing of a run's description
        over = [folder / name for name in LAST if (folder / name).exists()]
        for path in (*others, *described, *checkpoints, *over):
            self._upload(path)
        name = f"{self._name_here(folder)}/{CHECKPOINTS}"
        for old in set(self._place.names(name)) - {path.name for path in checkpoints}:
            self._place.remove(f"{name}/{old}")
        self._newest[folder] = newest

    def _upload(self, path: Path) -> None:
        size, changed = path.stat().st_size, path.stat().st_mtime_ns
        if self._sent.get(path) != (size, changed):
            self._place.upload(path, self._name_here(path))
            self._sent[path] = size, changed

    def _send_log(self) -> None:
        if self.log.exists():
            self._place.upload(self.log, self._log_name)

    def _note(self, path: Path) -> None:
        self._sent[path] = path.stat().st_size, path.stat().st_mtime_ns

    def _name_here(self, path: Path) -> str:
        return path.relative_to(self._scratch).as_posix()


@contextlib.contextmanager
def working_copy(order: Order, place: Place, log: str) -> Iterator[WorkingCopy]:
    """The folders that an order names; copies are gone at the end."""
    if not isinstance(place, UrlPlace):
        yield SharedFolders(order, Path(place.address) / log)
        return
    scratch = Path(tempfile.mkdtemp(prefix="zoo-attempt-"))
    try:
        yield Copies(order, place, scratch, log)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _newest(folder: Path) -> str:
    checkpoints = listed(folder / CHECKPOINTS)
    return checkpoints[-1].path.name if checkpoints else ""


def _is_kept(path: Path) -> bool:
    return path.name != LOCK and not path.name.endswith(TEMPORARY)
