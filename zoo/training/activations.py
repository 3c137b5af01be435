"""What a method shows of its input-dependent quantities while it trains, over a fixed validation batch.

A pass in evaluation mode on an eighth of a step's tokens, at some of the logged steps and at every validation. Which steps
follows from their numbers alone, and the random state is left as it was: a run that resumes writes the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.training.session import Session

EVERY = (
    50  # steps between two such passes at logged steps, at least: a pass takes up to a third of a small model's step
)
SHARE = 8  # a batch has so many times the tokens of such a pass


def is_due(step: int, steps: int, log_every: int, validate_every: int) -> bool:
    """Whether a logged step is one of those at which activations are watched: every few, and where it is validated."""
    apart = log_every * -(-EVERY // log_every)
    return step % apart == 0 or step % validate_every == 0 or step == steps


def quantities(session: Session) -> dict[str, dict[int, Tensor]]:
    """What the model has learned, and what it shows at this step: name → layer → value."""
    if not session.replica.is_whole:  # the run is ending without the other ranks, which hold the rest of the weights
        return {}
    return session.model.probes() | activations(session)


def activations(session: Session) -> dict[str, dict[int, Tensor]]:
    """What the extensions show at this step; at most one pass per step."""
    watch = session.watch
    if watch.silent or watch.step == session.state.step:
        return watch.seen
    if watch.tokens is None:
        watch.tokens = _fixed_batch(session)
    model, device = session.model, session.ranks.device
    model.eval()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []), session.autocast():
            watch.seen = model.activations(watch.tokens)
    finally:
        model.train()
    watch.step, watch.silent = session.state.step, not watch.seen
    return watch.seen


def _fixed_batch(session: Session) -> Tensor:
    tokens, _ = next(iter(session.data.evaluate("valid")))
    rows = session.tokens_per_step // session.ranks.size // SHARE // tokens.size(1)
    return tokens[: max(1, rows)].to(session.ranks.device)
