"""The whole validation split, shared among ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from zoo import alarm
from zoo.step import perplexity

if TYPE_CHECKING:
    from zoo.session import Session


def validate(session: Session) -> bool:
    """Measure, write, and note whether it got better; false if a signal came first, and then nothing has changed."""
    figures = measure(session, "valid")
    if figures is None:
        return False
    state, settings = session.state, session.settings
    state.valid, state.validated = figures, state.step
    if figures["loss"] < state.best - settings.min_delta:
        state.best, state.best_step, state.since_best = figures["loss"], state.step, 0
    else:
        state.since_best += 1
    _watch(session)
    with session.recording() as records:
        if records:
            records.row("valid", state.step, figures)
            records.histograms(state.step, session.model.probes())
            records.flush()
    session.bar.say(_line(session))
    return True


def _watch(session: Session) -> None:
    """Raise the alarm, once, when the figures cannot be honest."""
    state = session.state
    if state.alarm:
        return
    tokens, _ = next(iter(session.data.evaluate("valid")))
    with session.autocast():
        leak = alarm.sees_the_future(session.model, tokens.to(session.ranks.device))
    state.alarm = leak or alarm.too_good(state.valid, session.data)
    if state.alarm:
        session.bar.say(f"ALARM at step {state.step:,}: {state.alarm}")


@torch.no_grad()
def measure(session: Session, split: str) -> dict[str, float] | None:
    """Loss in nats a token, perplexity, bits per byte and accuracy of a split; each rank takes every n-th batch."""
    ranks, model = session.ranks, session.model
    nll = torch.zeros((), dtype=torch.float64, device=ranks.device)
    correct = torch.zeros((), dtype=torch.int64, device=ranks.device)
    count = 0
    model.eval()
    try:
        for index, (tokens, targets) in enumerate(session.data.evaluate(split)):
            if ranks.size == 1 and session.stop.signal:
                return None
            if index % ranks.size == ranks.rank:
                with session.autocast():
                    part = model.evaluate(tokens.to(ranks.device), targets.to(ranks.device))
                nll, correct, count = nll + part[0], correct + part[1], count + part[2]
    finally:
        model.train()
    total_nll, total_correct, total = ranks.sum([nll.item(), float(correct.item()), float(count)])
    loss = total_nll / total
    return {
        "loss": loss,
        "perplexity": perplexity(loss),
        "bits_per_byte": total_nll / math.log(2) / session.data.bytes(split),
        "accuracy": total_correct / total,
    }


def _line(session: Session) -> str:
    state = session.state
    best = "" if state.since_best == 0 else f" (best {state.best:.4f} at step {state.best_step:,})"
    return (
        f"step {state.step:,}/{session.steps:,}  train loss {state.train_loss:.4f}"
        f"  valid loss {state.valid['loss']:.4f}{best}  {state.tokens / max(state.train_seconds, 1e-9):,.0f} tokens/s"
    )
