"""What an engine is to the zoo: it starts attempts, each on some machine, and may lose any of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

State = Literal["waiting", "running", "gone"]


class Start(NamedTuple):
    """An attempt to start: on its machine `zoo.engines.attempt.carry_out(ADDRESS, name, number)`."""

    name: str
    number: int
    accelerated: bool  # it uses a GPU where runs are given one


class Resources(NamedTuple):
    """What each run is given."""

    cpus: int = 1
    gpus: float = 0
    custom: tuple[tuple[str, float], ...] = ()  # of Ray: name and amount


class Engine(Protocol):
    """What starts attempts. It is asked for nothing that the folders can tell."""

    name: str

    @property
    def capacity(self) -> int:
        """How many attempts it has room for at a time."""

    def start(self, starts: Sequence[Start]) -> Sequence[str]:
        """Begin attempts, or queue them, without waiting for them; a handle for each, by which a later bench knows it."""

    def states(self, handles: Collection[str]) -> Mapping[str, State]:
        """What it knows of attempts: *waiting* ones give no sign of life, and *gone* ones neither run nor wait any more."""

    def kill(self, handle: str) -> None:
        """End an attempt, or what is left of it, or take it out of the queue."""

    def close(self) -> None:
        """Leave the engine; end it if it was started for this bench."""
