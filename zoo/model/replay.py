"""Running the layers below again on a new input, with the attention pattern each had in its own pass.

The pattern is never stored: each layer attends once more with the queries and keys it had, to new values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recomputed

from zoo.history import History
from zoo.kernels.attend import Scores, attend
from zoo.kernels.autocast import autocasts
from zoo.kernels.layer_tail import TailWeights, layer_tail
from zoo.kernels.norm import rms_norm
from zoo.kernels.products import scaled_matrix
from zoo.kernels.rotary import heads_of
from zoo.model.attention import Attention
from zoo.model.block import Block
from zoo.model.norm import RMSNorm
from zoo.state import State

Weights = Sequence[Tensor] | None  # one number per layer, by which its output is multiplied


def attention_again(history: History, x: Tensor, weights: Weights = None) -> list[Tensor]:
    """The weighted attention output of every layer below on the input x (B, T, D)."""
    return _again(_replay_attention, history, x, weights)


def layers_again(history: History, x: Tensor, weights: Weights = None, checkpoint: bool = True) -> list[Tensor]:
    """The weighted FFN output of every layer below on the input x (B, T, D); `checkpoint` keeps little for backward."""
    replay = _lean_replay if checkpoint and torch.is_grad_enabled() else _replay
    return _again(replay, history, x, weights)


def add_attention(total: Tensor, history: History, x: Tensor, weights: Weights = None) -> Tensor:
    """total + Σ attention_again: the output projections add to it as they go."""
    if autocasts(x) or any(block.dropout for block in _blocks(history)):
        return sum(attention_again(history, x, weights), start=total)
    values, _ = _values(history, x)
    for i, (block, scores, v) in enumerate(zip(_blocks(history), history.scores, values, strict=True)):
        heads = attend(scores, v).transpose(1, 2).flatten(2).flatten(0, 1)
        matrix = scaled_matrix(_attention(block).out, weights[i] if weights else None)
        rows = total.flatten(0, 1)  # only the first sum is a new tensor: whoever made `total` may still need it
        total = (rows.addmm_(heads, matrix.T) if i else rows.addmm(heads, matrix.T)).view_as(x)
    return total


def add_layers(total: Tensor, history: History, x: Tensor, weights: Weights = None, checkpoint: bool = True) -> Tensor:
    """total + Σ layers_again."""
    return sum(layers_again(history, x, weights, checkpoint), start=total)


def _blocks(history: History) -> tuple[Block, ...]:
    """The layers below as the blocks they are; a method sees less of them."""
    return cast("tuple[Block, ...]", history.blocks)


def _again(replay: Callable[..., Tensor], history: History, x: Tensor, weights: Weights) -> list[Tensor]:
    values, state = _values(history, x)
    outputs = []
    for i, (block, scores, v) in enumerate(zip(_blocks(history), history.scores, values, strict=True)):
        outputs.append(replay(block, x, scores, v, state, weights[i] if weights else None))
    return outputs


def _values(history: History, x: Tensor) -> tuple[list[Tensor], State | None]:
    """The values of every layer below on x, and the state for what runs again."""
    # What a layer keeps for decoding when it is run for the layer under way stays apart from what it keeps for itself.
    state = None if history.state is None else history.state.inside(len(history.blocks) + 1)
    return joined_values(_blocks(history), x, state), state


def joined_values(blocks: tuple[Block, ...], x: Tensor, state: State | None) -> list[Tensor]:
    """Values of all blocks on one input. They share the normalised x; the norms' gains go into one large product."""
    attentions = [_attention(block) for block in blocks]
    if any("attention_input" in block.mixers for block in blocks):
        return [
            attention.values(block.attention_input(x, state).value, state)
            for block, attention in zip(blocks, attentions, strict=True)
        ]
    norms = [_norm(block.attention_norm) for block in blocks]
    normed = rms_norm(x, None, norms[0].eps)
    if x.size(0) * x.size(1) < attentions[0].value_weight().size(0):  # a few tokens: rather weight them
        return [attention.values(normed * norm.gain, state) for attention, norm in zip(attentions, norms, strict=True)]
    weights = [attention.value_weight() * norm.gain for attention, norm in zip(attentions, norms, strict=True)]
    counts = tuple(attention.heads[-1] for attention in attentions)
    parts = heads_of(F.linear(normed, torch.cat(weights)), counts, attentions[0].head_dim)
    return [attention.keep_values(v, state) for attention, v in zip(attentions, parts, strict=True)]


def _attention(block: Block) -> Attention:
    assert block.attention is not None, "no method that runs layers again is built where something else attends"
    return block.attention


def _norm(module: nn.Module) -> RMSNorm:
    assert isinstance(module, RMSNorm), "no method that runs layers again is built where a block has no norms"
    return module


def _replay_attention(
    block: Block, x: Tensor, scores: Scores, values: Tensor, state: State | None, weight: Tensor | None = None
) -> Tensor:
    """The attention sublayer's output for values (B, Hkv, S, d) made from a new input, times a weight.

    The weight goes into the output projection: nothing need be kept for its gradient.
    """
    return block.dropped(_attention(block).join(attend(scores, values), weight))


def _replay(
    block: Block, x: Tensor, scores: Scores, values: Tensor, state: State | None, weight: Tensor | None = None
) -> Tensor:
    """The FFN's output when the whole layer is run on a new input x, times a weight."""
    f = block.feed_forward(x + _replay_attention(block, x, scores, values, state), state)
    return f if weight is None else f * weight


def _lean_replay(
    block: Block, x: Tensor, scores: Scores, values: Tensor, state: State | None, weight: Tensor | None = None
) -> Tensor:
    """`_replay`, keeping the heads' output alone for backward, where everything after it is made again."""
    mixes = "ffn" in block.mixers or "ffn_inner" in block.mixers
    if mixes or block.dropout or torch.compiler.is_compiling():
        return recomputed(_replay, block, x, scores, values, state, weight, use_reentrant=False)
    heads = attend(scores, values).transpose(1, 2).flatten(2)
    down = scaled_matrix(block.ffn.down, weight)
    norm = _norm(block.ffn_norm)
    weights = TailWeights(_attention(block).out, norm.gain, block.ffn.gate_up, down)
    return layer_tail(x, heads, weights, norm.eps)
