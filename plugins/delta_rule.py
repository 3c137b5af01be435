"""Mixers that write by the delta rule, what a key does not already recall: DeltaNet and gated DeltaNet."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from zoo_plugins.mixers import (
    MatrixStateMixer,
    normal,
    short_convolution,
    step_bias,
    vector,
    wide,
)

from zoo.extension import Layer, MixingSite, preset
from zoo.functional import rms_norm, unit
from zoo.scan import delta_rule
from zoo.state import State
from zoo.sums import silu_taps


class DeltaNet(MatrixStateMixer):
    """q, k = SiLU(conv4(W u))/|·|, v = SiLU(conv4(W_v u)), β = σ(W_β u); S ← α S; S ← S + k ⊗ β (v − Sᵀ k); o = Sᵀ q/√K.

    z = W_o RMSNorm(o), a gain shared by heads. `negative`: β = 2σ. `decay`: α = exp(−e^{A} softplus(w_a·u + b)), otherwise 1.
    `gate`: RMSNorm(o) ⊙ SiLU(W_g u). `key_width` and `value_width` are those of a head.
    """

    def __init__(
        self,
        layer: Layer,
        negative: bool = False,
        decay: bool = False,
        gate: bool = False,
        heads: int | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
        chunk: int = 16,
        site: MixingSite = "attention",
        residual: bool = True,
    ) -> None:
        super().__init__(layer, heads, chunk, site, residual, key_width=key_width, value_width=value_width)
        each = layer.width // self.heads
        self.key_width = key_width or (max(1, round(0.75 * layer.width / self.heads)) if decay else each)
        value_width = value_width or (2 * self.key_width if decay else each)
        keys, values = self.heads * self.key_width, self.heads * value_width
        # W_q, W_k, W_v; W_g; W_β; W_a
        self.sizes = [2 * keys + values, values if gate else 0, self.heads, self.heads if decay else 0]
        self.w_in = normal(sum(self.sizes), layer.width, 0.02)
        self.conv = short_convolution(2 * keys + values)
        self.a_log = vector(torch.empty(self.heads).uniform_(1e-3, 16.0).log()) if decay else None
        self.b_delta = step_bias(self.heads) if decay else None
        self.gain = vector(torch.ones(value_width))
        self.w_out = self.out_matrix(normal(layer.width, values, 0.02))
        self.negative, self.gate = negative, gate

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        qkv, gate, beta, decay = F.linear(u, self.w_in).split(self.sizes, dim=-1)
        keys = 2 * self.heads * self.key_width
        both, v = silu_taps(self, qkv, self.conv, state, widths=[keys, qkv.size(-1) - keys])
        q, k = unit(wide(both).unflatten(-1, (2, self.heads, -1))).unbind(2)
        weight = torch.sigmoid(wide(beta)) * (2 if self.negative else 1)
        self.watch("beta", weight)
        o, last = delta_rule(
            q * self.key_width**-0.5,
            k,
            v.unflatten(-1, (self.heads, -1)),
            weight,
            self.log_decay(decay),
            self.before(state),
            chunk=self.chunk,
        )
        self.keep(state, last)
        o = rms_norm(o, None, self.eps).flatten(2)
        w_out = self.w_out * self.gain.repeat(self.heads)  # the gain in the matrix: no pass over the sequence for it
        return F.linear(o * F.silu(gate) if self.gate else o, w_out)

    def log_decay(self, raw: Tensor) -> Tensor | None:
        """ln α (B, T, H)."""
        if self.a_log is None or self.b_delta is None:
            return None
        log_decay = -wide(self.a_log).exp() * F.softplus(wide(raw) + self.b_delta)
        if self.watcher is not None:
            self.watch("kept", log_decay.exp())
        return log_decay

    def probes(self) -> dict[str, Tensor]:
        """What is left of a state after a token whose w_a·u is 0; without decay there is nothing to show."""
        if self.a_log is None or self.b_delta is None:
            return {}
        return {"decay_at_zero": torch.exp(-wide(self.a_log).exp() * F.softplus(wide(self.b_delta))).mean()}


deltanet = preset(
    DeltaNet,
    "S ← S + k ⊗ β (v − Sᵀ k): a matrix as state that writes what a key does not already recall",
    decay=False,
    gate=False,
)


@preset
def gated_deltanet(
    layer: Layer,
    negative: bool = False,
    gate: bool = True,
    heads: int | None = None,
    key_width: int | None = None,
    value_width: int | None = None,
    chunk: int = 16,
    site: MixingSite = "attention",
    residual: bool = True,
) -> DeltaNet:
    """deltanet with a decay per head and token and an output gate; K = 0.75 D over the heads and V = 2K unless given."""
    return DeltaNet(layer, negative, True, gate, heads, key_width, value_width, chunk, site, residual)
