"""Mixers whose state is a matrix per head: linear attention, retention, gated linear attention, Mamba-2."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo_plugins.mixers import (
    MatrixStateMixer,
    at_least_one,
    joined,
    linear,
    normal,
    short_convolution,
    step_bias,
    vector,
    wide,
    xavier,
)

from zoo.errors import ZooError
from zoo.extension import Layer, MixingSite, preset
from zoo.functional import normed_product, rms_norm
from zoo.scan import channel_decay, scalar_decay
from zoo.state import State
from zoo.sums import silu_taps


class LinearAttention(MatrixStateMixer):
    """o_t = Σ_{s≤t} (φ(q_t)·φ(k_s)) v_s / (Σ_{s≤t} φ(q_t)·φ(k_s) + 1e-6), φ = elu + 1; z = W_o o.

    `norm="rms"`: an RMSNorm per head in place of the denominator; `norm="none"`: neither. `phi="identity"`: φ(x) = x.
    """

    def __init__(
        self,
        layer: Layer,
        norm: Literal["sum", "rms", "none"] = "sum",
        phi: Literal["elu", "identity"] = "elu",
        heads: int | None = None,
        chunk: int | None = None,
        site: MixingSite = "attention",
        residual: bool = True,
    ) -> None:
        super().__init__(layer, heads, chunk, site, residual)
        self.norm, self.phi = norm, phi
        inner = layer.width // self.heads * self.heads
        self.w_in = normal(3 * inner, layer.width, layer.init_std)  # W_q, W_k, W_v
        self.w_out = self.out_matrix(normal(layer.width, inner, layer.out_std))

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        q, k, v = F.linear(u, self.w_in).unflatten(-1, (3, self.heads, -1)).unbind(2)
        if self.phi == "elu":
            q, k = F.elu(q) + 1, F.elu(k) + 1
        if self.norm == "sum":
            v = F.pad(v, (0, 1), value=1.0)  # the denominator is a channel of ones
        o, last = scalar_decay(q, k, wide(v), None, self.before(state), chunk=self.chunk)
        self.keep(state, last)
        if self.norm == "sum":
            o = o[..., :-1] / (o[..., -1:] + 1e-6)
        if self.norm == "rms":
            o = rms_norm(o, None, self.eps)
        return F.linear(o.flatten(2).to(u.dtype), self.w_out)


def retention_decays(heads: int, linspace: bool, device: torch.device) -> Tensor:
    """ln γ_h, in float64: γ = 1 − 2^{−5−h}, or between 1/32 and 1/512 below 1 in equal ratios."""
    if linspace:
        below = torch.linspace(math.log(1 / 32), math.log(1 / 512), heads, dtype=torch.float64, device=device).exp()
    else:
        below = 2.0 ** (-5 - torch.arange(heads, dtype=torch.float64, device=device))
    return torch.log1p(-below)


class Retention(MatrixStateMixer):
    """S_t = γ_h S_{t−1} + k_t ⊗ v_t, o = RMSNorm(S_tᵀ q_t), z = W_o (SiLU(W_g u) ⊙ o); q and k/√K turned by their position.

    γ_h = 1 − 2^{−5−h} is fixed; `linspace`: between 1 − 1/32 and 1 − 1/512, as in the authors' experiments. Pair j of a head,
    the channels j and j + K/2, turns by t · 10000^{−j/(K/2−1)}. K is D over the heads unless `key_width` says so, V is K unless
    `value_width` does.
    """

    def __init__(
        self,
        layer: Layer,
        linspace: bool = False,
        heads: int | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
        chunk: int | None = None,
        site: MixingSite = "attention",
        residual: bool = True,
    ) -> None:
        super().__init__(layer, heads, chunk, site, residual, key_width=key_width, value_width=value_width)
        self.linspace = linspace
        self.key_width = key_width or layer.width // self.heads
        if self.key_width % 2:
            raise ZooError(
                f"key_width = {self.key_width} is odd, and retention turns pairs of channels: set it, or other heads"
            )
        keys, values = self.heads * self.key_width, self.heads * (value_width or self.key_width)
        self.sizes = [keys, keys, values, values]
        self.w_in = joined(*(xavier(size, layer.width, 2**-2.5) for size in self.sizes))  # W_q, W_k, W_v, W_g
        self.w_out = self.out_matrix(xavier(layer.width, values, 0.5))

    def turned(self, q: Tensor, k: Tensor, state: State | None) -> tuple[Tensor, Tensor]:
        """q and k/√K (B, T, H, K) turned by where their tokens stand."""
        half = self.key_width // 2
        start = 0 if state is None else state.start
        places = torch.arange(start, start + q.size(1), device=q.device, dtype=torch.float64)
        angle = places[:, None] * 10000.0 ** (
            -torch.arange(half, device=q.device, dtype=torch.float64) / max(half - 1, 1)
        )
        cos, sin = (x.to(wide(q).dtype)[:, None] for x in (angle.cos(), angle.sin()))
        x = torch.stack([q, k * self.key_width**-0.5], dim=2)  # (B, T, 2, H, K)
        first, second = x.chunk(2, dim=-1)
        cos, sin = cos[:, None], sin[:, None]
        both = torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
        return both[:, :, 0], both[:, :, 1]

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        q, k, v, gate = F.linear(u, self.w_in).split(self.sizes, dim=-1)
        q, k, v = (x.unflatten(-1, (self.heads, -1)) for x in (q, k, v))
        q, k = self.turned(q, k, state)
        decays = retention_decays(self.heads, self.linspace, u.device).to(wide(v).dtype)
        o, last = scalar_decay(q, k, v, decays, self.before(state), chunk=self.chunk)
        self.keep(state, last)
        o = rms_norm(o, None, self.eps).flatten(2)
        return F.linear(F.silu(gate) * o, self.w_out)


class Gla(MatrixStateMixer):
    """S_t = diag(α_t) S_{t−1} + k_t ⊗ v_t, o = S_tᵀ q_t/√K, z = W_o (SiLU(W_r u + b_r) ⊙ norm(o)), α = σ(W_2 W_1 u + b)^{1/16}.

    Keys have D/2 channels, values D, in `heads` heads: few and wide ones are better. The norm is per head: a LayerNorm without
    gain, or with `norm="rms"` an RMSNorm with one. `conv`: SiLU(conv4(·)) on q, k and v. `rank` is that of the gate.
    """

    def __init__(
        self,
        layer: Layer,
        heads: int = 4,
        rank: int = 16,
        norm: Literal["layer", "rms"] = "layer",
        conv: bool = False,
        chunk: int = 16,
        site: MixingSite = "attention",
        residual: bool = True,
    ) -> None:
        super().__init__(layer, heads, chunk, site, residual, rank=rank)
        self.key_width, value_width = layer.width // (2 * self.heads), layer.width // self.heads
        if not self.key_width:
            raise ZooError(f"heads = {self.heads} must be at most half of the model's width, which is {layer.width}")
        keys, values = self.heads * self.key_width, self.heads * value_width
        self.sizes = [keys, keys, values, values, rank]
        gain, width = 2**-2.5, layer.width
        self.w_in = joined(  # W_q, W_k, W_v, W_r, W_1
            xavier(keys, width, gain),
            xavier(keys, width, gain),
            normal(values, width, 0.02),
            normal(values, width, 0.02),
            xavier(rank, width, gain),
        )
        self.b_gate = vector(torch.zeros(values))
        self.w_decay, self.b_decay = xavier(keys, rank, gain), vector(torch.zeros(keys))
        self.conv = short_convolution(2 * keys + values) if conv else None
        self.gain = vector(torch.ones(value_width)) if norm == "rms" else None
        self.w_out = self.out_matrix(normal(width, values, 0.02))

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        keys, _, values, _, rank = self.sizes
        qkv, gate, low = F.linear(u, self.w_in).split([2 * keys + values, values, rank], dim=-1)
        if self.conv is not None:
            parts = silu_taps(self, qkv, self.conv, state, widths=[keys, keys, values])
        else:
            parts = qkv.split([keys, keys, values], dim=-1)
        q, k, v = (x.unflatten(-1, (self.heads, -1)) for x in parts)
        log_decay = F.logsigmoid(wide(F.linear(low, self.w_decay)) + self.b_decay) / 16
        if self.watcher is not None:
            self.watch("kept", log_decay.exp())
        g = log_decay.unflatten(-1, (self.heads, -1))
        o, last = channel_decay(q * self.key_width**-0.5, k, v, g, self.before(state), chunk=self.chunk)
        self.keep(state, last)
        o = F.layer_norm(o, o.shape[-1:], eps=self.eps) if self.gain is None else rms_norm(o, self.gain, self.eps)
        return F.linear(F.silu(gate + self.b_gate) * o.flatten(2), self.w_out)

    def probes(self) -> dict[str, Tensor]:
        return {"decay_at_zero": torch.exp(F.logsigmoid(self.b_decay) / 16).mean()}


class Mamba2(MatrixStateMixer):
    """[g; x; B; C; τ] = W_in u, x, B, C = SiLU(conv4(·) + b), Δ = softplus(τ + b_Δ), z = W_out RMSNorm((y + D x) ⊙ SiLU(g)).

    y of a head: S_t = e^{−e^{A}Δ_t} S_{t−1} + B_t ⊗ (Δ_t x_t), y_t = S_tᵀ C_t; B and C, of `states` numbers, are shared by heads.
    `expansion` · D channels in heads of `head_width`: 64, or what 64 and the channels have in common, unless it or the number
    of `heads` is given.
    """

    def __init__(
        self,
        layer: Layer,
        expansion: int = 2,
        head_width: int | None = None,
        heads: int | None = None,
        states: int = 64,
        chunk: int | None = None,
        site: MixingSite = "attention",
        residual: bool = True,
    ) -> None:
        super().__init__(layer, None, chunk, site, residual, expansion=expansion, head_width=head_width, states=states)
        at_least_one(heads=heads)
        inner = expansion * layer.width
        if head_width is not None and heads is not None:
            raise ZooError("head_width and heads both say how the inner width is divided: give one of them")
        for name, value in (("head_width", head_width), ("heads", heads)):
            if value is not None and inner % value:
                raise ZooError(f"{name} = {value} must divide the inner width, which is {inner}")
        self.channels, self.states = inner, states
        self.heads = heads or inner // (head_width or math.gcd(inner, 64))
        convolution = inner + 2 * states
        self.w_in = linear(inner + convolution + self.heads, layer.width)
        self.conv = short_convolution(convolution)
        self.b_conv = vector(torch.empty(convolution).uniform_(-0.5, 0.5))
        self.b_delta = step_bias(self.heads)
        self.a_log = vector(torch.empty(self.heads).uniform_(1.0, 16.0).log())
        self.d = vector(torch.ones(self.heads))
        self.gain = vector(torch.ones(inner))
        self.w_out = self.out_matrix(nn.Parameter(linear(layer.width, inner).detach() / math.sqrt(layer.num_layers)))

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        inner, states = self.channels, self.states
        # Products of their own: what the convolution reads lies in one block, and no gradients are concatenated.
        gate, rest, tau = (F.linear(u, part) for part in self.w_in.split([inner, inner + 2 * states, self.heads]))
        x, b, c = silu_taps(self, rest, self.conv, state, bias=self.b_conv, widths=[inner, states, states])
        x = x.unflatten(-1, (self.heads, -1))
        delta = F.softplus(wide(tau) + self.b_delta)
        self.watch("step", delta)
        y, last = scalar_decay(
            c.unsqueeze(2),
            b.unsqueeze(2),
            x,
            -delta * wide(self.a_log).exp(),
            self.before(state),
            weight=delta,
            skip=self.d,
            chunk=self.chunk,
        )
        self.keep(state, last)
        # The gain in the matrix, and the norm after the product: no passes over the wide sequence for them.
        return normed_product(y.flatten(2) * F.silu(gate), (self.w_out * self.gain).T, self.eps)

    def probes(self) -> dict[str, Tensor]:
        """What is left of a state after a token whose τ is 0."""
        return {"decay_at_zero": torch.exp(-wide(self.a_log).exp() * F.softplus(wide(self.b_delta))).mean()}


linear_attention = preset(LinearAttention)
retention = preset(Retention)
gla = preset(Gla)
mamba2 = preset(Mamba2)
