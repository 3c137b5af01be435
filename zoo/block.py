"""The block, and where its three extension points sit."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.attention import Attention, RMSNorm, times
from zoo.errors import ConfigError
from zoo.extension import ATTENTION, FFN, AttentionInputs, Layer, Residual, TemporalMixing
from zoo.functional import Rest, rest_of_layer, swiglu
from zoo.history import History, Pattern, Record
from zoo.scores import Scores, attend
from zoo.state import State


class FeedForward(nn.Module):
    """SwiGLU, gate and up joined in one product."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.gate_up = nn.Parameter(torch.empty(2 * layer.ffn_dim, layer.width))
        self.down = nn.Parameter(torch.empty(layer.width, layer.ffn_dim))

    def forward(self, x: Tensor) -> Tensor:
        return swiglu(F.linear(x, self.gate_up), self.down)


class Block(nn.Module):
    """One layer. It reads the history and returns a record; it never changes either, so it can be run again."""

    def __init__(
        self, layer: Layer, residual: Residual, attention: Attention, temporal_mixing: TemporalMixing, dropout: float
    ) -> None:
        super().__init__()
        self.layer = layer
        self.parallel = layer.parallel
        self.dropout = dropout
        self.residual = residual
        self.attention_norm = RMSNorm(layer.width, layer.norm_eps)
        self.attention = attention
        self.temporal_mixing = temporal_mixing
        self.ffn_norm = RMSNorm(layer.width, layer.norm_eps)
        self.ffn = FeedForward(layer)

    def forward(self, stream: Tensor, history: History, state: State | None) -> tuple[Tensor, Record]:
        x = self.residual.read(ATTENTION, stream, history)
        inputs = x if isinstance(x, AttentionInputs) else AttentionInputs(x, x, x)
        history = history.under_way(self, inputs.query)
        a, pattern = self.attend(inputs, history, state)
        after = self.residual.write(ATTENTION, stream, a, history)
        history = history.under_way(self, inputs.query, a)
        y = self.residual.read(FFN, stream if self.parallel else after, history)
        assert isinstance(y, Tensor)
        f = self.feed_forward(y, state)
        return self.residual.write(FFN, after, f, history), Record(self, inputs.query, a, f, pattern)

    def attend(self, inputs: AttentionInputs, history: History, state: State | None) -> tuple[Tensor, Pattern | None]:
        """The attention sublayer, or what takes its place."""
        if inputs.query is inputs.key is inputs.value:
            normed = self.mixed_input(inputs.query, state)
            if self.temporal_mixing.site == "attention":
                return self._dropped(self.temporal_mixing(normed, state)), None
            a, pattern = self.attention(normed, inputs, history, state)
        else:
            if self.temporal_mixing.site == "attention":
                raise ConfigError("separate inputs for query, key and value have no place where nothing attends")
            scopes = [None if state is None else state.inside(i) for i in range(3)]
            mixed = AttentionInputs(*(self.mixed_input(x, s) for x, s in zip(inputs, scopes, strict=True)))
            a, pattern = self.attention(mixed, inputs, history, state)
        return self._dropped(a), pattern

    def mixed_input(self, x: Tensor, state: State | None) -> Tensor:
        """Attention's input after its norm, and after temporal mixing where that is its site."""
        normed = self.attention_norm(x)
        return self.temporal_mixing(normed, state) if self.temporal_mixing.site == "attention_input" else normed

    def feed_forward(self, y: Tensor, state: State | None) -> Tensor:
        """The FFN sublayer with its norm, and temporal mixing where that is its site."""
        z = self.ffn_norm(y)
        if self.temporal_mixing.site == "ffn":
            z = self.temporal_mixing(z, state)
        return self._dropped(self.ffn(z))

    def _dropped(self, branch: Tensor) -> Tensor:
        return F.dropout(branch, self.dropout, self.training) if self.dropout else branch

    # -- run again on another input, with the attention pattern of the first pass ---------------------------------------

    def replay_attention(
        self, x: Tensor, scores: Scores, values: Tensor, state: State | None, weight: Tensor | None = None
    ) -> Tensor:
        """The attention sublayer's output on a new input x, whose values (B, Hkv, S, d) have been made, times a weight.

        The weight goes into the output projection: nothing need be kept for its gradient.
        """
        return self._dropped(self.attention.join(attend(scores, values), weight))

    def replay(
        self, x: Tensor, scores: Scores, values: Tensor, state: State | None, weight: Tensor | None = None
    ) -> Tensor:
        """The FFN's output when the whole layer is run on a new input x, times a weight."""
        f = self.feed_forward(x + self.replay_attention(x, scores, values, state), state)
        return f if weight is None else f * weight

    def lean_replay(
        self, x: Tensor, scores: Scores, values: Tensor, state: State | None, weight: Tensor | None = None
    ) -> Tensor:
        """The same, keeping the heads' output alone for backward; all behind it is made again there."""
        mixes = self.temporal_mixing.site == "ffn" and type(self.temporal_mixing) is not TemporalMixing
        if mixes or self.dropout or torch.compiler.is_compiling():
            return checkpoint(self.replay, x, scores, values, state, weight, use_reentrant=False)
        heads = attend(scores, values).transpose(1, 2).flatten(2)
        weights = Rest(self.attention.out, self.ffn_norm.gain, self.ffn.gate_up, times(self.ffn.down, weight))
        return rest_of_layer(x, heads, weights, self.ffn_norm.eps)
