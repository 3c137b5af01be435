"""The trainer: settings, how a run starts or goes on, and its loop."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import gin

from zoo import checkpoint, folder as run_folder, summary as summaries
from zoo.errors import ConfigError, RunError
from zoo.summary import Status, Summary, summarise

if TYPE_CHECKING:
    from zoo.config import Config
    from zoo.session import Session


@gin.register("train", module="zoo")
@dataclass(frozen=True)
class Settings:
    """How to train, whatever is trained."""

    steps: int = 1000  # of the optimiser
    tokens: int | None = None  # the same budget in tokens; when it is given, it decides
    seed: int = 1  # of the first weights, the order of the data, and dropout

    lr: float = 3e-3
    warmup: float = 0.05  # the part of the steps in which the learning rate rises
    final_lr: float = 0.1  # what the cosine goes down to, as a part of lr
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1  # of matrices; parameters may ask to be left out
    clip: float = 1.0  # the largest norm of the gradient; 0: any
    accumulate: int = 1  # batches a step

    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # of the forward pass: bfloat16 on CUDA, else float32
    compile: bool = False  # the stack of blocks
    checkpoint_activations: bool = False  # less memory, more time

    validate_every: int = 100  # steps; and at the end
    patience: int = 0  # stop after so many validations without a better one; 0: never
    min_delta: float = 0.0  # what counts as better
    max_skipped: int = 10  # so many steps in a row that are not finite: diverged

    log_every: int = 10  # steps
    save_every: int = 200  # steps; and at the end, and when told to stop
    keep_checkpoints: int = 2

    def __post_init__(self) -> None:
        at_least_one = (
            "steps",
            "accumulate",
            "validate_every",
            "max_skipped",
            "log_every",
            "save_every",
            "keep_checkpoints",
        )
        not_negative = ("lr", "eps", "weight_decay", "clip", "patience", "min_delta", "seed")
        for name in at_least_one:
            self._check(name, getattr(self, name) >= 1, "at least 1")
        self._check("seed", self.seed < 1 << 63, "below 2⁶³")
        for name in not_negative:
            self._check(name, 0 <= getattr(self, name) < math.inf, "a number that is not negative")
        for name in ("warmup", "final_lr"):
            self._check(name, 0 <= getattr(self, name) <= 1, "between 0 and 1")
        self._check("tokens", self.tokens is None or self.tokens >= 1, "at least 1")
        self._check(
            "betas", len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas), "two numbers from 0 to below 1"
        )

    def _check(self, name: str, fits: bool, wanted: str) -> None:
        if not fits:
            raise ConfigError(f"train.{name} = {getattr(self, name)!r} must be {wanted}")

    def num_steps(self, tokens_per_step: int) -> int:
        """The budget in steps."""
        return self.steps if self.tokens is None else max(1, math.ceil(self.tokens / tokens_per_step))


def run(config: Config, folder: Path, *, show: bool = True, allow_leak: bool = False) -> Summary:
    """Train what the configuration says, in this folder: from the beginning, or from where a run there was left.

    A run that is over is not touched; its summary is returned. Under torchrun every process calls this.
    """
    from zoo.ranks import join
    from zoo.start import start

    settings: Settings = config.build("train")
    with contextlib.ExitStack() as stack:
        ranks = stack.enter_context(join(settings.device))
        ranks.on_first(lambda: stack.enter_context(run_folder.opened(folder, config)))
        before = ranks.on_first(lambda: summaries.read(folder))
        if before and before.over:
            return before
        session = stack.enter_context(start(config, settings, ranks, folder, show and ranks.first, allow_leak))
        with _disk_errors(config, session):
            with session.stop, session.bar:
                status = loop(session)
            return ranks.on_first(lambda: _end(config, session, status))


def loop(session: Session) -> Status:
    """Do what is due at this step, then train on. What is due follows from the state alone, also after a break."""
    from zoo.session import save
    from zoo.step import train_step
    from zoo.validate import validate

    saved = session.state.step
    while True:
        if session.broken:
            raise session.broken
        if validation_due(session) and not session.signal:
            validate(session)
        step, status, signal = session.state.step, _ended(session), session.signal
        if step != saved and (status or signal or step % session.settings.save_every == 0):
            save(session)
            saved = step
        if status or signal:
            return status or "interrupted"
        train_step(session)


def _end(config: Config, session: Session, status: Status) -> Summary:
    """On the first rank: the last records, and the summary."""
    assert session.records is not None
    if session.failure:  # after the last step
        raise session.failure
    if status != "interrupted":
        session.records.figures(session.state.step, session.model.probes())
        session.records.end()
    summary = summarise(config, session, status)
    summary.write(session.folder)
    return summary


def validation_due(session: Session) -> bool:
    """Whether this step asks for a validation that it has not had."""
    state = session.state
    due = state.step > 0 and (state.step % session.settings.validate_every == 0 or state.step >= session.steps)
    return due and state.validated != state.step


def _ended(session: Session) -> Status | None:
    state, settings = session.state, session.settings
    if state.skipped_in_a_row >= settings.max_skipped:
        return "diverged"
    if settings.patience and state.since_best >= settings.patience:
        return "stopped early"
    return "finished" if state.step >= session.steps and not validation_due(session) else None


@contextlib.contextmanager
def _disk_errors(config: Config, session: Session) -> Iterator[None]:
    """Turn a disk that fails under a run into a sentence; its last good checkpoint is still there."""
    try:
        yield
    except OSError as error:
        if error.errno not in run_folder.DISK:
            raise
        with contextlib.suppress(OSError):
            if session.ranks.first:
                summarise(config, session, "interrupted").write(session.folder)
        kept = checkpoint.listed(session.folder / "checkpoints")
        where = f"go on from step {kept[-1].step:,}" if kept else "begin again"
        raise RunError(
            f"the run in {session.folder} stopped after step {session.state.step:,}: {error.strerror or error}. "
            f"Once that is mended, the same command will {where}"
        ) from error
