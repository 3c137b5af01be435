"""What a training run holds while it runs, and the part of it that goes into checkpoints."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.runs.metrics import Records
from zoo.training.progress_lines import Quiet
from zoo.training.schedules import Period, periods
from zoo.training.signals import Stop

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.data.batches import Data
    from zoo.model.language_model import LanguageModel
    from zoo.training.early_checks import Early
    from zoo.training.optimizer import Optimizer
    from zoo.training.ranks import Ranks
    from zoo.training.replicas import Replica
    from zoo.training.settings import Settings
from zoo.training.train_state import TrainState
from zoo.training.watch import Watch


@dataclass
class Session:
    """A run under way in this process."""

    settings: Settings
    ranks: Ranks
    folder: Path
    data: Data
    model: LanguageModel
    replica: Replica  # the model as steps see it
    optimizer: Optimizer
    reader: Any
    steps: int  # to train in all
    tokens_per_step: int  # over all ranks
    state: TrainState = field(default_factory=TrainState)
    stop: Stop = field(default_factory=Stop)
    bar: Quiet = field(default_factory=Quiet)
    config: str = ""  # as text: a checkpoint keeps whose it is
    records: Records | None = None  # the first rank's
    early: Early | None = None  # what looks at the first steps
    allow_leak: bool = False  # train on when the model is seen to leak
    agreed: int = 0  # the signal that every rank knows of
    failure: OSError | None = None  # the first rank's, while writing records
    agreed_failure: OSError | None = None  # the failure that every rank knows of
    methods: dict[str, str] = field(default_factory=dict)  # slot → name of the method in it
    window_seconds: float = 0.0  # of training since the last log
    window_tokens: int = 0
    watch: Watch = field(default_factory=Watch)  # of activations
    evaluation_seconds: float = math.nan  # of the last validation
    began: float = field(default_factory=time.perf_counter)  # on this process's clock, as if there had been no break

    def seconds(self) -> float:
        """Since the run began, without the time between its sessions."""
        return time.perf_counter() - self.began

    @functools.cached_property
    def periods(self) -> tuple[Period, ...]:
        """The parts at whose ends it is as if the run were over."""
        return periods(self.steps, self.settings)

    @property
    def signal(self) -> int:
        """The signal to stop for, or 0. Several ranks agree on it once a step, so that all stop at the same one."""
        return self.stop.signal if self.ranks.size == 1 else self.agreed

    @property
    def broken(self) -> OSError | None:
        """The failure to end for. Several ranks agree on it as on a signal."""
        return self.failure if self.ranks.size == 1 else self.agreed_failure

    def batches(self) -> list[tuple[Tensor, Tensor]]:
        """The inputs and targets (B, T) of one step: a pair for each pass of each accumulation."""
        blocks = [next(self.reader).to(self.ranks.device, non_blocking=True) for _ in range(self.settings.accumulate)]
        return [each for block in blocks for each in self.data.passes(block[:, :-1], block[:, 1:])]

    @property
    def precision(self) -> str:
        """The precision of the forward pass, where the setting leaves it to the device."""
        chosen = self.settings.precision
        return chosen if chosen != "auto" else "bfloat16" if self.ranks.device.type == "cuda" else "float32"

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The precision of the forward pass."""
        import torch

        if self.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.ranks.device.type, torch.bfloat16)

    @contextlib.contextmanager
    def recording(self) -> Iterator[Records | None]:
        """The records, on the first rank; that they cannot be written soon ends the run, on all ranks."""
        try:
            yield self.records
        except OSError as error:
            self.failure = error
