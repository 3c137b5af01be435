"""What a bench and the attempts at its tasks know of each other: small files in the store, and nothing in the engine.

engine/NAME/order.json     what is to be run, written by the bench before an attempt is started
engine/NAME/attempt.json   the number of the newest attempt, and the engine's name for it
engine/NAME/beat.json      written every few seconds by the attempt: it lives, where, and how far it is
engine/NAME/end.json       the exit code with which an attempt ended by itself
engine/NAME/stop.json      attempts up to this number are to save and stop
engine/NAME/log-N.txt      what attempt N printed

An attempt that finds a newer number than its own ends at once: of two attempts at one task the newer one goes on.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, TypeVar

from zoo.engines.places import Place

FOLDER = "engine"
T = TypeVar("T")


@dataclass(frozen=True)
class Order:
    """What is to be run: `python -m MODULE ARGUMENTS`, where the store may be elsewhere than on the bench's machine."""

    title: str
    module: str
    arguments: list[str]
    cores: int
    store: str  # the folder of the store, as the arguments name it
    folders: list[str]  # of the runs that are worked in
    cwd: str
    environment: dict[str, str]
    beat: float  # seconds between two signs of life


@dataclass(frozen=True)
class Attempt:
    """The newest attempt at a task."""

    number: int
    handle: str  # the engine's name for it
    saved: int = 0  # the step of the newest checkpoint when it began
    vain: int = 0  # how many before it, one after the other, left no newer checkpoint


@dataclass(frozen=True)
class Beat:
    """A sign of life."""

    number: int
    count: int
    host: str
    step: int
    saved: int  # the step of the newest checkpoint


@dataclass(frozen=True)
class End:
    """How an attempt ended by itself."""

    number: int
    code: int


@dataclass(frozen=True)
class StopRequest:
    """Attempts up to this one are to save and stop."""

    number: int


FILES: dict[type, str] = {
    Order: "order.json",
    Attempt: "attempt.json",
    Beat: "beat.json",
    End: "end.json",
    StopRequest: "stop.json",
}


class Board:
    """The files about one task."""

    def __init__(self, place: Place, name: str) -> None:
        self.place, self.name = place, name

    def read(self, kind: type[T]) -> T | None:
        """The file of this kind; None where there is none, or only a part of one."""
        content = self.place.read(self._file(FILES[kind]))
        if content is None:
            return None
        try:
            return kind(**_entries(json.loads(content), kind))
        except (ValueError, TypeError, AttributeError):
            return None

    def write(self, value: Order | Attempt | Beat | End | StopRequest) -> None:
        text = json.dumps(dataclasses.asdict(value))
        self.place.write(self._file(FILES[type(value)]), text.encode())

    def log(self, number: int) -> str:
        """The name of the file with what an attempt printed."""
        return self._file(f"log-{number}.txt")

    def _file(self, name: str) -> str:
        return f"{FOLDER}/{self.name}/{name}"


def _entries(row: dict[str, Any], kind: type) -> dict[str, Any]:
    names = {entry.name for entry in dataclasses.fields(kind)}
    return {name: value for name, value in row.items() if name in names}
