"""When a validation is too good to be true: does the model see the future, and what does the corpus make plausible?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.data import Data
    from zoo.model import LanguageModel

# Of what a general compressor needs, the part that no honest model of text has been seen to go below.
SHARE_OF_COMPRESSED = 0.25
ACCURACY = 0.98


def too_good(figures: dict[str, float], data: Data) -> str:
    """A sentence if the figures are better than the corpus makes plausible; empty if they are not."""
    floor = SHARE_OF_COMPRESSED * data.compressed_bits("valid")
    if figures["bits_per_byte"] < floor:
        return (
            f"{figures['bits_per_byte']:.3f} bits per byte on the validation split are too good to be true: a compressor"
            f" needs {floor / SHARE_OF_COMPRESSED:.2f}"
        )
    if figures["accuracy"] > ACCURACY:
        return f"an accuracy of {figures['accuracy']:.1%} on the validation split is too good to be true"
    return ""


def sees_the_future(model: LanguageModel, tokens: Tensor) -> str:
    """A sentence if what the model says at a position depends on later tokens; empty if it does not."""
    import torch

    rows = tokens[:2]
    here = rows.size(1) // 2
    if here == 0:
        return ""
    changed = rows.clone()
    changed[:, here:] = (changed[:, here:] + 1) % (int(rows.max()) + 1)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            first, second = (_hidden(model, each)[:, :here] for each in (rows, changed))
    finally:
        model.train(was_training)
    difference = (first - second).abs().max().item()
    scale = first.abs().max().item()
    if difference > 1e-3 * max(scale, 1e-6):
        return f"tokens after position {here} change what the model says before it: it sees the future"
    return ""


def _hidden(model: LanguageModel, tokens: Tensor) -> Tensor:
    """The same random numbers each time, for a method that draws some."""
    import torch

    with torch.random.fork_rng(devices=[tokens.device] if tokens.is_cuda else []):
        torch.manual_seed(0)
        return model.hidden(tokens)
