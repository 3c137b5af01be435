"""What a training run holds while it runs, and the part of it that goes into checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import checkpoint, randomness
from zoo.progress import Quiet
from zoo.records import Records
from zoo.stop import Stop

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from zoo.data import Data
    from zoo.model import LanguageModel
    from zoo.ranks import Ranks
    from zoo.train import Settings


@dataclass
class State:
    """Where a run stands: plain values, the same on every rank."""

    step: int = 0
    tokens: int = 0
    validated: int = 0  # the step of the last validation
    valid: dict[str, float] = field(default_factory=dict)  # its figures
    best: float = math.inf
    best_step: int = 0
    since_best: int = 0  # validations
    skipped: int = 0
    skipped_in_a_row: int = 0
    alarm: str = ""  # why a validation was too good to be true
    blew_up: str = ""  # where the first non-finite number of the last skipped steps stood
    train_loss: float = math.nan  # as last logged
    window_loss: float = 0.0  # the sum over the steps since then
    window_steps: int = 0
    train_seconds: float = 0.0  # in training steps alone
    seconds: float = 0.0  # in everything


@dataclass
class Session:
    """A run under way in this process."""

    settings: Settings
    ranks: Ranks
    folder: Path
    data: Data
    model: LanguageModel
    replica: torch.nn.Module  # the model itself, or the same averaged over ranks
    optimizer: torch.optim.Optimizer
    reader: Any
    steps: int  # to train in all
    tokens_per_step: int  # over all ranks
    state: State = field(default_factory=State)
    stop: Stop = field(default_factory=Stop)
    bar: Quiet = field(default_factory=Quiet)
    records: Records | None = None  # the first rank's
    agreed: int = 0  # the signal that every rank knows of
    failure: OSError | None = None  # the first rank's, while writing records
    agreed_failure: OSError | None = None  # … that every rank knows of
    window_seconds: float = 0.0  # of training since the last log
    window_tokens: int = 0
    began: float = field(default_factory=time.perf_counter)  # on this process's clock, as if there had been no break

    def seconds(self) -> float:
        """Since the run began, without the time between its sessions."""
        return time.perf_counter() - self.began

    @property
    def signal(self) -> int:
        """The signal to stop for, or 0. Several ranks agree on it once a step, so that all stop at the same one."""
        return self.stop.signal if self.ranks.size == 1 else self.agreed

    @property
    def broken(self) -> OSError | None:
        """The failure to end for. Several ranks agree on it as on a signal."""
        return self.failure if self.ranks.size == 1 else self.agreed_failure

    def batches(self) -> list[tuple[Tensor, Tensor]]:
        """The inputs and targets (B, T) of one step, a pair for each accumulation."""
        blocks = [next(self.reader).to(self.ranks.device, non_blocking=True) for _ in range(self.settings.accumulate)]
        return [(block[:, :-1], block[:, 1:]) for block in blocks]

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The precision of the forward pass."""
        import torch

        wanted, device = self.settings.precision, self.ranks.device.type
        if wanted == "float32" or (wanted == "auto" and device != "cuda"):
            return contextlib.nullcontext()
        return torch.autocast(device, torch.bfloat16)

    @contextlib.contextmanager
    def recording(self) -> Iterator[Records | None]:
        """The records, on the first rank; that they cannot be written soon ends the run, on all ranks."""
        try:
            yield self.records
        except OSError as error:
            self.failure = error


def save(session: Session) -> None:
    """Write a checkpoint: the weights once, and of every rank what is its own."""
    ranks, state = session.ranks, session.state
    state.seconds = session.seconds()
    own = ranks.gather({"random": randomness.random_state(), "reader": session.reader.state_dict()})

    def write() -> None:
        assert session.records is not None
        checkpoint.save(
            session.folder / "checkpoints",
            state.step,
            {
                "model": session.model.state_dict(),
                "optimizer": session.optimizer.state_dict(),
                "state": dataclasses.asdict(state),
                "ranks": own,
                "marks": session.records.marks(),
            },
            session.settings.keep_checkpoints,
        )

    ranks.on_first(write)


def load(session: Session, kept: dict[str, Any]) -> None:
    """Return to where a checkpoint was written."""
    session.model.load_state_dict(kept["model"])
    session.optimizer.load_state_dict(kept["optimizer"])
    session.state = State(**kept["state"])
    session.began -= session.state.seconds
    own = kept["ranks"][session.ranks.rank]
    session.reader.load_state_dict(own["reader"])
    randomness.set_random_state(own["random"])
