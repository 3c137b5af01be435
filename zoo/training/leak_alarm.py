"""Does the model of a run see the future, and is a validation better than the corpus makes plausible?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.training import leak_check
from zoo.training.leak_check import Finding, Question

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.data.batches import Data
    from zoo.training.session import Session

# Of what a general compressor needs, the part that few models of text go below.
SHARE_OF_COMPRESSED = 0.25
ACCURACY = 0.98
JITTER = 0.02  # moves every weight away from where it starts: a gate that is still closed may hide a leak


def before_training(session: Session) -> Finding:
    """Look for a leak in the model as it is about to be trained, and with its weights moved a little."""
    seed = session.settings.seed
    finding = _examine(session, leak_check.thorough_cuts, seed, whole=True)
    if finding.leak:
        return finding
    try:
        with leak_check.replaced(session.model, _moved(seed)):
            moved = _examine(session, leak_check.few_cuts, seed + 1)
    except Exception as error:  # there may be weights that a method cannot work with
        moved = Finding(
            note=f"leaks were looked for with the initial weights alone; with others the model fails: {error}"
        )
    return Finding(moved.leak and f"with its weights moved by {JITTER}, {moved.leak}", finding.note or moved.note)


def at_validation(session: Session) -> Finding:
    """Look for a leak in the model as it is now, at other cuts each time."""
    return _examine(session, leak_check.few_cuts, 1_000_003 * session.settings.seed + session.state.step)


def _examine(session: Session, cuts: leak_check.Cuts, seed: int, whole: bool = False) -> Finding:
    """Ask in training and in evaluation, with batches of the right shape; `whole`: all rows that an evaluation takes."""
    tokens, _ = next(iter(session.data.evaluate("valid")))
    training = _rows(tokens, session.data.batch_size)
    note = ""
    for is_training, batch in ((True, training), (False, tokens if whole else training)):
        question = Question(session.model, is_training, session.autocast, seed=seed % 2**32)
        chosen = cuts(batch.size(0), batch.size(1), seed)
        finding = leak_check.examine(question, batch.to(session.ranks.device), chosen, seed)
        if finding.leak:
            return finding
        note = note or finding.note
    return Finding(note=note)


def _rows(tokens: Tensor, count: int) -> Tensor:
    """So many rows, over and over where there are fewer."""
    import torch

    return tokens[torch.arange(count, device=tokens.device) % tokens.size(0)]


def _moved(seed: int) -> leak_check.Make:
    import torch

    drawn: dict[torch.device, torch.Generator] = {}

    def make(values: Tensor) -> Tensor:
        generator = drawn.setdefault(values.device, torch.Generator(values.device).manual_seed(seed))
        return values + torch.empty_like(values).normal_(0.0, JITTER, generator=generator)

    return make


def too_good(figures: dict[str, float], data: Data) -> str:
    """A sentence if the figures are better than most corpora make plausible; empty if they are not."""
    floor = SHARE_OF_COMPRESSED * data.compressed_bits("valid")
    if figures["bits_per_byte"] < floor:
        return (
            f"{figures['bits_per_byte']:.3f} bits per byte on the validation split are few: a compressor needs"
            f" {floor / SHARE_OF_COMPRESSED:.2f}"
        )
    if figures["accuracy"] > ACCURACY:
        return f"an accuracy of {figures['accuracy']:.1%} on the validation split is high"
    return ""
