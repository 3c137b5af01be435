"""The trainer: a run from its first step, or from its last checkpoint, to its summary."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.errors import RankError, RunError
from zoo.runs import checkpoint, run_folder
from zoo.runs.summary import Status, Summary, read_summary
from zoo.training.finish import summarise

if TYPE_CHECKING:
    from zoo.config.configuration import Config
    from zoo.training.session import Session
from zoo.training.settings import Settings


def run(config: Config, folder: Path, *, show: bool = True, allow_leak: bool = False) -> Summary:
    """Train what the configuration says, in this folder: from the beginning, or from where a run there was left.

    A run that is over is not touched; its summary is returned. Under torchrun every process calls this.
    """
    from zoo.training.ranks import join
    from zoo.training.setup import open_session

    settings: Settings = config.build("train")
    with contextlib.ExitStack() as stack:
        ranks = stack.enter_context(join(settings.device, settings.rank_timeout))
        ranks.on_first(lambda: stack.enter_context(run_folder.opened(folder, config)))
        before = ranks.on_first(lambda: read_summary(folder))
        if before and before.over:
            return before
        session = stack.enter_context(open_session(config, settings, ranks, folder, show and ranks.first, allow_leak))
        with _faults_in_words(config, session):
            with session.stop, session.bar:
                status = loop(session)
            with session.replica.whole():
                return ranks.on_first(lambda: _end(config, session, status))


def loop(session: Session) -> Status:
    """Do what is due at this step, then train on. What is due follows from the state alone, also after a break."""
    from zoo.training.saving import save_session
    from zoo.training.step import train_step
    from zoo.training.validation import validate

    saved, ranks = session.state.step, session.ranks
    while True:
        if session.broken:
            raise session.broken
        if validation_due(session) and not session.signal:
            ranks.at(f"the validation after step {session.state.step:,}")
            validate(session)
        step, status, signal = session.state.step, _ended(session), session.signal
        if step != saved and (status or signal or step % session.settings.save_every == 0):
            ranks.at(f"saving step {step:,}")
            session.bar.busy("saving")
            save_session(session)
            saved = step
        if status or signal:
            return status or "interrupted"
        ranks.at(f"step {step + 1:,}")
        session.bar.training()
        train_step(session)


def _end(config: Config, session: Session, status: Status) -> Summary:
    """On the first rank: the last records, and the summary."""
    from zoo.training.activations import quantities
    from zoo.training.validation import tell_of_bad_probes

    assert session.records is not None
    if session.failure:  # after the last step
        raise session.failure
    tell_of_bad_probes(session)
    if status != "interrupted":
        session.records.tensorboard.figures(session.state.step, quantities(session))
        session.records.tensorboard.end()
    summary = summarise(config, session, status)
    summary.write(session.folder)
    return summary


def validation_due(session: Session) -> bool:
    """Whether this step asks for a validation that it has not had."""
    state = session.state
    due = state.step > 0 and (state.step % session.settings.validate_every == 0 or state.step >= session.steps)
    due = due or any(period.end == state.step for period in session.periods)
    return due and state.validated != state.step


def _ended(session: Session) -> Status | None:
    state, settings = session.state, session.settings
    if state.alarm and not session.allow_leak:
        return "leaks"
    if state.skipped_in_a_row >= settings.max_skipped:
        return "diverged"
    early = settings.patience and state.since_best >= settings.patience
    if not early and (state.step < session.steps or validation_due(session)):
        return None
    if state.skipped == state.step or not math.isfinite(state.valid["loss"]):
        return "diverged"  # nothing was trained, or nothing of use
    return "stopped early" if early else "finished"


@contextlib.contextmanager
def _faults_in_words(config: Config, session: Session) -> Iterator[None]:
    """Turn a disk that fails under a run, or a rank that is lost, into a sentence; the last good checkpoint is still there."""
    try:
        yield
    except OSError as error:
        if not (reason := run_folder.fault(error, session.folder)):
            raise
        where = _interrupted(config, session)
        raise RunError(
            f"the run in {session.folder} stopped after step {session.state.step:,}: {reason}. "
            f"Once that is mended, the same command will {where}"
        ) from error
    except RankError as error:
        where = _interrupted(config, session)
        raise RankError(f"{error}: this run has ended, and the same command will {where}", error.speaks) from error


def _interrupted(config: Config, session: Session) -> str:
    """Write down that the run was interrupted, if possible; what the same command will do."""
    with contextlib.suppress(OSError):
        if session.ranks.first:
            summarise(config, session, "interrupted").write(session.folder)
    checkpoints = checkpoint.listed(session.folder / "checkpoints")
    return f"go on from step {checkpoints[-1].step:,}" if checkpoints else "begin again"
