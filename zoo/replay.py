"""Running the layers below again on a new input, with the attention pattern each had in its own pass.

The pattern is never stored: each layer attends once more with the queries and keys it had, to new values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.attention import times
from zoo.block import Block
from zoo.functional import autocasts, heads_of, rms_norm
from zoo.history import History
from zoo.scores import attend
from zoo.state import State

Weights = Sequence[Tensor] | None  # a number a layer, by which its output is multiplied


def attention_again(history: History, x: Tensor, weights: Weights = None) -> list[Tensor]:
    """The weighted attention output of every layer below on the input x (B, T, D)."""
    return _again(Block.replay_attention, history, x, weights)


def layers_again(history: History, x: Tensor, weights: Weights = None, checkpoint: bool = True) -> list[Tensor]:
    """The weighted FFN output of every layer below on the input x (B, T, D); `checkpoint` keeps little for backward."""
    replay = Block.lean_replay if checkpoint and torch.is_grad_enabled() else Block.replay
    return _again(replay, history, x, weights)


def add_attention(total: Tensor, history: History, x: Tensor, weights: Weights = None) -> Tensor:
    """total + Σ attention_again: the output projections add to it as they go."""
    if autocasts(x) or any(block.dropout for block in history.blocks):
        return sum(attention_again(history, x, weights), start=total)
    values, _ = _values(history, x)
    for i, (block, scores, v) in enumerate(zip(history.blocks, history.scores, values, strict=True)):
        heads = attend(scores, v).transpose(1, 2).flatten(2).flatten(0, 1)
        matrix = times(block.attention.out, weights[i] if weights else None)
        rows = total.flatten(0, 1)  # only the first sum is a new tensor: whoever made `total` may still need it
        total = (rows.addmm_(heads, matrix.T) if i else rows.addmm(heads, matrix.T)).view_as(x)
    return total


def add_layers(total: Tensor, history: History, x: Tensor, weights: Weights = None, checkpoint: bool = True) -> Tensor:
    """total + Σ layers_again."""
    return sum(layers_again(history, x, weights, checkpoint), start=total)


def _again(replay: Callable[..., Tensor], history: History, x: Tensor, weights: Weights) -> list[Tensor]:
    values, state = _values(history, x)
    done = []
    for i, (block, scores, v) in enumerate(zip(history.blocks, history.scores, values, strict=True)):
        done.append(replay(block, x, scores, v, state, weights[i] if weights else None))
    return done


def _values(history: History, x: Tensor) -> tuple[list[Tensor], State | None]:
    """The values of every layer below on x, and the state for what runs again."""
    # What a layer keeps for decoding when it is run for the layer under way stays apart from what it keeps for itself.
    state = None if history.state is None else history.state.inside(len(history.blocks) + 1)
    return joined_values(history.blocks, x, state), state


def joined_values(blocks: tuple[Block, ...], x: Tensor, state: State | None) -> list[Tensor]:
    """Values of all blocks on one input. They share the normalised x; the norms' gains go into one large product."""
    if any(block.temporal_mixing.site == "attention_input" for block in blocks):
        return [block.attention.values(block.mixed_input(x, state), state) for block in blocks]
    normed = rms_norm(x, None, blocks[0].attention_norm.eps)
    if x.size(0) * x.size(1) < blocks[0].attention.value_weight().size(0):  # a few tokens: rather weight them
        return [block.attention.values(normed * block.attention_norm.gain, state) for block in blocks]
    weights = [block.attention.value_weight() * block.attention_norm.gain for block in blocks]
    counts = tuple(block.attention.heads[-1] for block in blocks)
    parts = heads_of(F.linear(normed, torch.cat(weights)), counts, blocks[0].attention.head_dim)
    return [block.attention.keep_values(v, state) for block, v in zip(blocks, parts, strict=True)]
