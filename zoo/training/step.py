"""One training step."""

from __future__ import annotations

import errno
import math
import time
from typing import TYPE_CHECKING, Any

import torch

from zoo.kernels.cross_entropy import IGNORED
from zoo.system.memory import peak_memory
from zoo.training.activations import activations, is_due
from zoo.training.nonfinite import first_nonfinite
from zoo.training.schedules import learning_rate
from zoo.training.signals import SIGNALS

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.runs.metrics import Records
    from zoo.training.session import Session


def train_step(session: Session) -> None:
    """Train on one batch, unless it gives a loss or gradient that is not finite: then the weights stay as they are."""
    settings, state, began = session.settings, session.state, time.perf_counter()
    batches = session.batches()
    with session.ranks.exchange(computes=True):  # of gradients
        random_states, loss = backward(session, batches)
    norm = session.replica.norm()
    loss, finite = _exchange(session, loss, norm)
    state.step += 1
    state.tokens += session.tokens_per_step
    lr = learning_rate(state.step, session.steps, settings)
    if finite:
        _update(session, norm, lr)
        state.skipped_in_a_row = 0
        state.window_loss += loss
        state.window_steps += 1
    else:
        _skip(session, batches, random_states)
    for message in session.early.after_backward(state.step) if session.early else ():
        session.bar.say(message)
    session.optimizer.zero_grad(set_to_none=True)
    _count(session, time.perf_counter() - began)
    session.bar.step(state.step, loss, session.window_tokens / session.window_seconds)
    if state.step % settings.log_every == 0 or state.step == session.steps:
        _log(session, lr, norm)


def backward(session: Session, batches: list[tuple[Tensor, Tensor]]) -> tuple[list[Any], float]:
    """Leave the mean gradient in the parameters; return the random state before each part, and the mean loss."""
    random_states, total, count = [], torch.zeros((), dtype=torch.float32, device=session.ranks.device), len(batches)
    shares = _shares(session, batches)
    for index, (tokens, targets) in enumerate(batches):
        random_states.append(_random_states(session.ranks.device))
        with session.replica.one_pass(last=index + 1 == count):
            with session.autocast():
                loss = session.replica.loss(tokens, targets, session.settings.z_loss)
            loss = loss if shares is None else loss * shares[index]
            (loss / session.settings.accumulate if session.settings.accumulate > 1 else loss).backward()
        total += loss.detach()
    session.replica.exchange_rest()
    return random_states, total.item() / session.settings.accumulate


def _shares(session: Session, batches: list[tuple[Tensor, Tensor]]) -> list[float] | None:
    """The part of a batch's targets that each pass has; None where a pass has all of them."""
    if len(batches) == session.settings.accumulate:
        return None
    whole = session.data.batch_size * session.data.length
    return [(targets != IGNORED).sum().item() / whole for _, targets in batches]


def _random_states(device: torch.device) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _exchange(session: Session, loss: float, norm: float) -> tuple[float, bool]:
    """The mean loss over ranks and whether all is finite; on the way, whether anyone was asked to stop."""
    ranks, finite = session.ranks, math.isfinite(loss) and math.isfinite(norm)
    if ranks.size == 1:
        return loss, finite
    flags = [float(session.stop.signal == number) for number in SIGNALS]
    total, bad, failures, *signals = ranks.sum([loss, not finite, session.failure is not None, *flags])
    session.agreed = next((number for number, count in zip(SIGNALS, signals, strict=True) if count), 0)
    if failures:
        session.agreed_failure = session.failure or OSError(errno.EIO, "the first process could not write its records")
    return total / ranks.size, not bad


def _update(session: Session, norm: float, lr: float) -> None:
    clip = session.settings.clip
    if clip and norm > clip:
        torch._foreach_mul_([gradient.value for gradient in session.replica.gradients()], clip / norm)
    for group in session.optimizer.param_groups:
        group["lr"] = lr * group["lr_factor"]
    session.optimizer.step()


def _skip(session: Session, batches: list[tuple[Tensor, Tensor]], random_states: list[Any]) -> None:
    """Count the step; of several in a row the first tells where it began."""
    state = session.state
    if state.skipped_in_a_row == 0:
        state.blew_up = first_nonfinite(session, batches, random_states)
        session.bar.say(f"step {state.step:,} skipped: {state.blew_up}")
    state.skipped += 1
    state.skipped_in_a_row += 1
    with session.recording() as records:
        if records:
            records.row("skipped", state.step, {"in_a_row": state.skipped_in_a_row, "blew_up": state.blew_up})


def _count(session: Session, seconds: float) -> None:
    session.state.train_seconds += seconds
    session.window_seconds += seconds
    session.window_tokens += session.tokens_per_step


def _log(session: Session, lr: float, norm: float) -> None:
    state = session.state
    if state.window_steps:
        state.train_loss = state.window_loss / state.window_steps
    if state.window_steps:
        with session.replica.whole(), session.recording() as records:
            if records:
                _write(session, records, lr, norm)
    state.window_loss, state.window_steps = 0.0, 0
    session.window_seconds, session.window_tokens = 0.0, 0


def _write(session: Session, records: Records, lr: float, norm: float) -> None:
    """The figures, probes and activations of a logged step."""
    state, settings = session.state, session.settings
    figures = {
        "loss": state.train_loss,
        "perplexity": perplexity(state.train_loss),
        "learning_rate": lr,
        "gradient_norm": norm,
        "tokens_per_second": session.window_tokens / session.window_seconds,
        "peak_memory": peak_memory(str(session.ranks.device)),
        "tokens": state.tokens,
    }
    records.row("train", state.step, figures)
    watches = is_due(state.step, session.steps, settings.log_every, settings.validate_every)
    watched = activations(session) if watches else {}
    records.probes(state.step, session.model.probes() | watched)
    records.flush()


def perplexity(loss: float) -> float:
    """exp, without overflow."""
    return math.inf if loss >= 700 else math.exp(loss)
