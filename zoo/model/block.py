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
    Residual,
    Stream,
    TemporalMixing,
    is_plain,
    name_of,
)
from zoo.history import History, Pattern, Record
from zoo.kernels.swiglu import swiglu
from zoo.model.attention import Attention
from zoo.model.norm import RMSNorm
from zoo.model.positions import Positions
from zoo.model.sites import mixers_of
from zoo.state import State


class FeedForward(nn.Module):
    """SwiGLU, gate and up joined in one product."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.gate_up = nn.Parameter(torch.empty(2 * layer.ffn_dim, layer.width))
        self.down = nn.Parameter(torch.empty(layer.width, layer.ffn_dim))

    def forward(self, x: Tensor, mixing: TemporalMixing | None, state: State | None) -> Tensor:
        """`mixing` stands between the product of gate and up and the activation."""
        gate_up = F.linear(x, self.gate_up)
        if mixing is not None:
            gate_up = mixing.inner(gate_up, x, state)
        return swiglu(gate_up, self.down)


class Block(nn.Module):
    """One layer. It reads the history and returns a record; it never changes either, so it can be run again."""

    attention_class = Attention

    def __init__(
        self, layer: Layer, extensions: Mapping[str, Any], *, positions: Positions, qk_norm: bool, dropout: float
    ) -> None:
        """`extensions` has one extension per slot."""
        super().__init__()
        self.layer = layer
        self.parallel = layer.parallel
        self.dropout = dropout
        self.residual: Residual = extensions["residual"]
        self.mixers = mixers_of(extensions["temporal_mixing"])
        self.attention_norm = _norm(layer, self.residual)
        self.attention: Attention | None = None  # where a method stands in its place, nothing of it is built
        self._idle: dict[str, Extension] = {slot: extensions[slot] for slot in ("score_mixing", "head_mixing")}
        if "attention" not in self.mixers:
            self._idle = {}
            self.attention = self.attention_class(
                layer,
                extensions["score_mixing"],
                extensions["head_mixing"],
                positions=positions,
                qk_norm=qk_norm,
                dropout=dropout,
                qkv_mixing=self.mixers.get("qkv"),
            )
        # The order of these is that of the parameters, and so that of what a checkpoint keeps of the optimiser.
        self.temporal_mixing: TemporalMixing = extensions["temporal_mixing"]
        self.ffn_norm = _norm(layer, self.residual)
        self.ffn = FeedForward(layer)

    def forward(self, stream: Stream, history: History, state: State | None) -> tuple[Stream, Record]:
        if not is_plain(self.residual):
            history = history.read_by(self.residual)
        x = self.residual.read(ATTENTION, stream, history)
        inputs = _three(x)
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
        normed = self.attention_inputs(inputs, state)
        if self.attention is None:
            if not _is_one(normed):
                raise ConfigError("separate inputs for query, key and value have no place where nothing attends")
            return self.dropped(self.mixed("attention", normed.query, state)), None
        a, pattern = self.attention(normed, inputs, history, state)
        return self.dropped(a), pattern

    def attention_inputs(self, inputs: AttentionInputs, state: State | None) -> AttentionInputs:
        """What attention projects: what it reads after its norm, mixed with the past where that is the site."""
        if _is_one(inputs):
            return self.attention_input(inputs.query, state)
        scopes = [None if state is None else state.inside(i) for i in range(3)]
        of_query, of_key, of_value = (self.attention_input(x, s) for x, s in zip(inputs, scopes, strict=True))
        return AttentionInputs(of_query.query, of_key.key, of_value.value)

    def attention_input(self, x: Tensor, state: State | None) -> AttentionInputs:
        """The same of one input for all three, which the mixing may part."""
        normed = self.attention_norm(x)
        mixing = self.mixers.get("attention_input")
        return _three(normed if mixing is None else mixing(normed, state))

    def feed_forward(self, y: Tensor, state: State | None) -> Tensor:
        """The FFN sublayer with its norm, mixed with the past where that is the site."""
        u = self.mixed("ffn", self.ffn_norm(y), state)
        return self.dropped(self.ffn(u, self.mixers.get("ffn_inner"), state))

    def mixed(self, site: str, u: Tensor, state: State | None) -> Tensor:
        """u, mixed with its past if temporal mixing takes place at this site."""
        mixing = self.mixers.get(site)
        if mixing is None:
            return u
        answer = mixing(u, state)
        if not isinstance(answer, Tensor):
            raise ConfigError(
                f"{name_of(self.temporal_mixing)} gives query, key and value inputs of their own, and at the site {site}"
                " there is no attention to take them"
            )
        return answer

    def extension(self, slot: str) -> Extension:
        """The extension in a slot, wherever in the block that is."""
        if slot in self._idle:
            return self._idle[slot]
        extension = getattr(self if hasattr(self, slot) else self.attention, slot)
        assert isinstance(extension, Extension)
        return extension

    def dropped(self, branch: Tensor) -> Tensor:
        """A sublayer's output after dropout."""
        return F.dropout(branch, self.dropout, self.training) if self.dropout else branch


def _norm(layer: Layer, residual: Residual) -> nn.Module:
    """The norm before a sublayer, where the residual method leaves it to the block."""
    return RMSNorm(layer.width, layer.norm_eps) if residual.prenorm else nn.Identity()


def _three(x: Tensor | AttentionInputs) -> AttentionInputs:
    return x if isinstance(x, AttentionInputs) else AttentionInputs(x, x, x)


def _is_one(inputs: AttentionInputs) -> bool:
    """Whether query, key and value have one input."""
    return inputs.query is inputs.key is inputs.value
