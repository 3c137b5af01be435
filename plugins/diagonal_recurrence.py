"""Recurrences of each channel by itself: Griffin's block, its RG-LRU alone, minGRU, Mamba."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo_plugins.mixers import (
    Mixer,
    at_least_one,
    joined,
    linear,
    normal,
    short_convolution,
    softplus_inverse,
    step_bias,
    vector,
    wide,
)

from zoo.errors import ZooError
from zoo.extension import Layer, MixingSite, hint, preset
from zoo.functional import rms_norm
from zoo.scan import linear_scan, selective_scan
from zoo.state import State
from zoo.sums import silu_taps, taps

DECAY = 8.0  # the c of RG-LRU
STEEPEST = 1000.0  # the slope of √(1−a²) counts as at most this in gradients, as in the authors' code
Ring = Literal["code", "paper"]


def ring_start(width: int, ring: Ring) -> nn.Parameter:
    """Λ: softplus(Λ) = −ln a, with a² ~ U(0.9², 0.999²) as the authors' code, or a⁸ ~ U(0.9, 0.999) as the paper."""
    power, (low, high) = {"code": (2, (0.9**2, 0.999**2)), "paper": (8, (0.9, 0.999))}[ring]
    return vector(softplus_inverse(-torch.log(torch.empty(width).uniform_(low, high)) / power))


class _Root(torch.autograd.Function):
    """√x of x ≥ 0; in gradients its slope counts as at most `STEEPEST`, so that they are numbers at 0 too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        root = x.sqrt()
        ctx.save_for_backward(root)
        return root

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        return grad / (2 * root).clamp(min=1 / STEEPEST)


class Recurrence(nn.Module):
    """RG-LRU: r, i = σ(W_{r,i} p + b), a = exp(−8 softplus(Λ) r), h_t = a_t ⊙ h_{t−1} + √(1−a_t²) ⊙ i_t ⊙ p_t.

    The matrices are block-diagonal. `first_whole`: at a sequence's first token the root is 1. `chunk`: as `linear_scan` has it.
    """

    def __init__(self, width: int, blocks: int, ring: Ring, chunk: int | None, first_whole: bool) -> None:
        super().__init__()
        block = width // blocks
        self.w = nn.Parameter(torch.randn(blocks, block, 2 * block) * block**-0.5)  # r's columns, then i's
        self.b = vector(torch.zeros(2, width))
        self.lam = ring_start(width, ring)
        self.chunk, self.first_whole = chunk, first_whole

    def gates(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """r and i."""
        blocks, block = self.w.shape[:2]
        if blocks == 1:
            product = p @ self.w[0]
            r, i = product.split(block, dim=-1)
        else:
            rows = p.reshape(-1, blocks, block).transpose(0, 1)  # (blocks, B·T, block)
            product = (rows @ self.w).transpose(0, 1).unflatten(0, p.shape[:2])
            r, i = (x.flatten(2) for x in product.split(block, dim=-1))
        return torch.sigmoid(wide(r) + self.b[0]), torch.sigmoid(wide(i) + self.b[1])

    def forward(self, mixer: Mixer, p: Tensor, state: State | None) -> Tensor:
        r, i = self.gates(p)
        log_a = r * (-DECAY * F.softplus(wide(self.lam)))
        a = log_a.exp()
        root = _Root.apply(-torch.expm1(2 * log_a))
        if self.first_whole and (state is None or state.start == 0):
            root = torch.cat([torch.ones_like(root[:, :1]), root[:, 1:]], dim=1)
        mixer.watch("kept", a)
        mixer.watch("input_gate", i)
        h, last = linear_scan(a, root * i * p, mixer.before(state), chunk=self.chunk)
        mixer.keep(state, last)
        return h.to(p.dtype)

    def decay(self) -> Tensor:
        """a at r = ½, in every channel."""
        return torch.exp(-DECAY / 2 * F.softplus(wide(self.lam)))


class Griffin(Mixer):
    """z = W_o (gelu(W_y u + b_y) ⊙ h) + b_o, h the RG-LRU of p = conv4(W_x u + b_x) + b_c: Griffin's recurrent block.

    `width` is R: 4D/3, rounded up to a multiple of the gates' `blocks`, unless given; these are as many as heads unless given.
    """

    def __init__(
        self,
        layer: Layer,
        width: int | None = None,
        blocks: int | None = None,
        ring: Ring = "code",
        chunk: int | None = None,
        site: MixingSite = "attention",
        residual: bool = True,
    ) -> None:
        super().__init__(site, residual)
        at_least_one(width=width, blocks=blocks, chunk=chunk)
        blocks = layer.num_heads if blocks is None else blocks
        width = math.ceil(4 * layer.width / 3 / blocks) * blocks if width is None else width
        if width % blocks:
            raise ZooError(
                f"width = {width} must be a multiple of the gates' blocks, of which there are {blocks} (blocks)"
            )
        into = layer.width**-0.5
        self.w_in = joined(normal(width, layer.width, into), normal(width, layer.width, into))  # W_y, W_x
        self.b_in = vector(torch.zeros(2 * width))
        self.conv = hint(normal(4, width, 0.05), decay=False)
        self.b_conv = vector(torch.zeros(width))
        self.recurrence = Recurrence(width, blocks, ring, chunk, first_whole=True)
        self.w_out = self.out_matrix(normal(layer.width, width, math.sqrt(2 / (layer.num_layers * width))))
        self.b_out = vector(torch.zeros(layer.width))

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        y, x = F.linear(u, self.w_in, self.b_in).chunk(2, dim=-1)
        p = taps(self, x, self.conv, state) + self.b_conv
        h = self.recurrence(self, p, state)
        return F.linear(F.gelu(y, approximate="tanh") * h, self.w_out, self.b_out)

    def probes(self) -> dict[str, Tensor]:
        return {"decay": self.recurrence.decay().mean()}


class RgLru(Mixer):
    """z = RMSNorm(h), h the RG-LRU of u itself; its gates have matrices D×D, or block-diagonal ones.

    Without `residual` it is wr_7 with h_{t−1} in place of u_{t−1}. With it, u + z, and the norm has a gain, from 0.
    """

    def __init__(
        self,
        layer: Layer,
        blocks: int | None = None,
        ring: Ring = "code",
        chunk: int | None = None,
        site: MixingSite = "ffn",
        residual: bool = True,
    ) -> None:
        super().__init__(site, residual)
        at_least_one(blocks=blocks, chunk=chunk)
        if layer.width % (blocks or 1):
            raise ZooError(f"blocks = {blocks} must divide the model's width, which is {layer.width}")
        self.recurrence = Recurrence(layer.width, blocks or 1, ring, chunk, first_whole=False)
        self.gain, self.eps = self.out_gain(layer), layer.norm_eps

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        return rms_norm(self.recurrence(self, u, state), self.gain, self.eps)

    def probes(self) -> dict[str, Tensor]:
        return {"decay": self.recurrence.decay().mean()} | self.gain_probe(self.gain)


class MinGru(Mixer):
    """h_t = (1−z_t) ⊙ h_{t−1} + z_t ⊙ g(W_h u_t), z = σ(W_z u), and W_o h; g(x) = x + ½ where x ≥ 0, σ(x) below.

    `plain`: g(x) = x. The inner width is `expansion` · D. W_o is left out at the inputs of attention and the FFN if nothing is
    added there and the widths are one.
    """

    def __init__(
        self,
        layer: Layer,
        expansion: int = 1,
        plain: bool = False,
        chunk: int | None = None,
        site: MixingSite = "attention",
        residual: bool = True,
    ) -> None:
        super().__init__(site, residual)
        at_least_one(expansion=expansion, chunk=chunk)
        inner = expansion * layer.width
        self.w_in = joined(linear(inner, layer.width), linear(inner, layer.width))  # W_z, W_h
        projects = site == "attention" or expansion != 1 or self.added
        self.w_out = self.out_matrix(linear(layer.width, inner)) if projects else None
        self.plain, self.chunk = plain, chunk

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        gate, raw = F.linear(u, self.w_in).chunk(2, dim=-1)
        z = torch.sigmoid(wide(gate))
        candidate = raw if self.plain else torch.where(raw >= 0, raw + 0.5, torch.sigmoid(raw))
        self.watch("gate", z)
        h, last = linear_scan(1 - z, z * candidate, self.before(state), chunk=self.chunk)
        self.keep(state, last)
        h = h.to(raw.dtype)
        return h if self.w_out is None else F.linear(h, self.w_out)


class Mamba(Mixer):
    """[x; g] = W_in u, x = SiLU(conv4(x) + b), [δ; B; C] = W_x x, Δ = softplus(W_Δ δ + b_Δ), z = W_out((S6 + D ⊙ x) ⊙ SiLU(g)).

    S6: h_t = e^{Δ_t A} ⊙ h_{t−1} + (Δ_t ⊙ x_t) ⊗ B_t, y_t = h_t C_t. `expansion` · D channels of `states` numbers each; δ has
    `rank` numbers, ⌈D/16⌉ unless given.
    """

    def __init__(
        self,
        layer: Layer,
        expansion: int = 2,
        states: int = 16,
        rank: int | None = None,
        chunk: int = 16,
        site: MixingSite = "attention",
        residual: bool = True,
    ) -> None:
        super().__init__(site, residual)
        at_least_one(expansion=expansion, states=states, rank=rank, chunk=chunk)
        inner = expansion * layer.width
        self.rank, self.states, self.chunk = rank or math.ceil(layer.width / 16), states, chunk
        self.w_in = linear(2 * inner, layer.width)
        self.conv = short_convolution(inner)
        self.b_conv = vector(torch.empty(inner).uniform_(-0.5, 0.5))
        self.w_x = linear(self.rank + 2 * states, inner)
        self.w_delta, self.b_delta = linear(inner, self.rank), step_bias(inner)
        self.a_log = vector(torch.arange(1.0, states + 1).log().repeat(inner, 1))
        self.d = vector(torch.ones(inner))
        out = linear(layer.width, inner)
        self.w_out = self.out_matrix(nn.Parameter(out.detach() / math.sqrt(2 * layer.num_layers)))  # the FFN stays

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        x, gate = F.linear(u, self.w_in).chunk(2, dim=-1)
        (x,) = silu_taps(self, x, self.conv, state, bias=self.b_conv)
        low, b, c = F.linear(x, self.w_x).split([self.rank, self.states, self.states], dim=-1)
        delta = F.softplus(wide(F.linear(low, self.w_delta)) + self.b_delta)
        self.watch("step", delta)
        y, last = selective_scan(x, delta, -wide(self.a_log).exp(), b, c, self.before(state), chunk=self.chunk)
        self.keep(state, last)
        return F.linear((y + self.d * x) * F.silu(gate), self.w_out)

    def probes(self) -> dict[str, Tensor]:
        return {"step_at_zero": F.softplus(wide(self.b_delta)).mean()}


griffin = preset(Griffin)
rg_lru = preset(RgLru)
min_gru = preset(MinGru)
mamba = preset(Mamba)
