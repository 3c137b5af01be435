"""The block, and where its slots are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import ConfigError
from zoo.extension import (
    ATTENTION,
    FFN,
    AttentionInputs,
    Extension,
    Layer,
    MixingSite,
    Residual,
    TemporalMixing,
    is_plain,
)
from zoo.history import History, Pattern, Record
from zoo.kernels.swiglu import swiglu
from zoo.model.attention import Attention
from zoo.model.norm import RMSNorm
from zoo.model.positions import Positions
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
        self, layer: Layer, extensions: Mapping[str, Any], *, positions: Positions, qk_norm: bool, dropout: float
    ) -> None:
        """`extensions` has one extension per slot."""
        super().__init__()
        self.layer = layer
        self.parallel = layer.parallel
        self.dropout = dropout
        self.residual: Residual = extensions["residual"]
        self.attention_norm = RMSNorm(layer.width, layer.norm_eps)
        self.attention = Attention(
            layer,
            extensions["score_mixing"],
            extensions["head_mixing"],
            positions=positions,
            qk_norm=qk_norm,
            dropout=dropout,
        )
        self.temporal_mixing: TemporalMixing = extensions["temporal_mixing"]
        self.ffn_norm = RMSNorm(layer.width, layer.norm_eps)
        self.ffn = FeedForward(layer)

    def forward(self, stream: Tensor, history: History, state: State | None) -> tuple[Tensor, Record]:
        if not is_plain(self.residual):
            history = history.read_by(self.residual)
        x = self.residual.read(ATTENTION, stream, history)
        inputs = x if isinstance(x, AttentionInputs) else AttentionInputs(x, x, x)
        history = history.under_way(self, inputs.query)
        a, pattern = self.attend(inputs, history, state)
        after = self.residual.write(ATTENTION, stream, a, history)
        history = history.under_way(self, inputs.query, a)
        y = self.residual.read(FFN, stream if self.parallel else after, history)
        assert isinstance(y, Tensor)
        f = self.feed_forward(y, state)
        left = self.residual.write(FFN, after, f, history)
        return left, Record(self, inputs.query, a, f, left, pattern)

    def attend(self, inputs: AttentionInputs, history: History, state: State | None) -> tuple[Tensor, Pattern | None]:
        """The attention sublayer, or what takes its place."""
        if inputs.query is inputs.key is inputs.value:
            normed = self.attention_input(inputs.query, state)
            if self.mixes("attention"):
                return self.dropped(self.mixed("attention", normed, state)), None
            a, pattern = self.attention(AttentionInputs(normed, normed, normed), inputs, history, state)
        else:
            if self.mixes("attention"):
                raise ConfigError("separate inputs for query, key and value have no place where nothing attends")
            scopes = [None if state is None else state.inside(i) for i in range(3)]
            mixed = AttentionInputs(*(self.attention_input(x, s) for x, s in zip(inputs, scopes, strict=True)))
            a, pattern = self.attention(mixed, inputs, history, state)
        return self.dropped(a), pattern

    def attention_input(self, x: Tensor, state: State | None) -> Tensor:
        """What attention projects: x after its norm, mixed with the past where that is the site."""
        return self.mixed("attention_input", self.attention_norm(x), state)

    def feed_forward(self, y: Tensor, state: State | None) -> Tensor:
        """The FFN sublayer with its norm, mixed with the past where that is the site."""
        return self.dropped(self.ffn(self.mixed("ffn", self.ffn_norm(y), state)))

    def mixes(self, site: MixingSite) -> bool:
        """Whether temporal mixing takes place at this site."""
        return self.temporal_mixing.site == site

    def mixed(self, site: MixingSite, u: Tensor, state: State | None) -> Tensor:
        """u, mixed with its past if temporal mixing takes place at this site."""
        return self.temporal_mixing(u, state) if self.mixes(site) else u

    def extension(self, slot: str) -> Extension:
        """The extension in a slot, wherever in the block that is."""
        extension = getattr(self if hasattr(self, slot) else self.attention, slot)
        assert isinstance(extension, Extension)
        return extension

    def dropped(self, branch: Tensor) -> Tensor:
        """A sublayer's output after dropout."""
        return F.dropout(branch, self.dropout, self.training) if self.dropout else branch
