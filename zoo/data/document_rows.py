"""Blocks cut at the borders of documents, so that no document sees another.

A block holds the end of one document, whole ones, and the beginning of another. Each becomes a row of its own, filled up
at the end to a power of two; rows of one length are run together. A causal model does not see what follows, so that the
filling changes nothing, whatever the method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SHORTEST = 16  # tokens of a row: for fewer, a pass of their own is not worth it
IGNORE = -100  # as a target: nothing to predict


def document_rows(tokens: Tensor, targets: Tensor, eos: int) -> list[tuple[Tensor, Tensor]]:
    """Passes in place of one over tokens and targets (B, T): every target once, each row of one document.

    A document begins at the `eos` before it.
    """
    import torch

    length = tokens.size(1)
    begins = tokens == eos
    begins[:, 0] = True
    starts = begins.flatten().nonzero().squeeze(1)  # in the order of rows, then positions
    ends = torch.cat([starts[1:], starts.new_tensor([tokens.numel()])])
    sizes = ends - starts
    flat_tokens, flat_targets = tokens.flatten(), targets.flatten()
    passes = []
    for room in _rooms(length):
        smaller = room // 2 if room > SHORTEST else 0
        chosen = ((sizes > smaller) & (sizes <= room)).nonzero().squeeze(1)
        if not len(chosen):
            continue
        places = torch.arange(min(room, length), device=tokens.device)
        inside = places < sizes[chosen, None]
        at = (starts[chosen, None] + places).where(inside, starts[chosen, None])
        part = flat_targets[at].masked_fill(~inside, IGNORE)
        if (part != IGNORE).any():
            passes.append((flat_tokens[at], part))
    return passes


def _rooms(length: int) -> list[int]:
    """The lengths that rows are filled up to: powers of two, down from that of a block."""
    room, rooms = 1 << max(0, length - 1).bit_length(), []
    while room >= SHORTEST:
        rooms.append(room)
        room //= 2
    return rooms or [SHORTEST]
