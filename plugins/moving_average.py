"""Averages over the whole past as one long convolution: Megalodon's complex moving average."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from zoo_plugins.mixers import Mixer, at_least_one, vector, wide

from zoo.extension import AttentionInputs, Layer, MixingSite, preset
from zoo.functional import rms_norm
from zoo.scan import long_convolution
from zoo.state import State


class Cema(Mixer):
    """h_k = α u + (1−αδ) e^{iθ_k} h_k in every channel, k = 1 … N, and RMSNorm(Re(γ·h)/√N + ω ⊙ u); θ_k = σ(θ) 2πk/N.

    N is `modes`. At attention's input values are made of u, and queries and keys of u + z, or without `residual` of z alone.
    """

    def __init__(
        self, layer: Layer, modes: int = 16, site: MixingSite = "attention_input", residual: bool = True
    ) -> None:
        super().__init__(site, residual)
        at_least_one(modes=modes)
        width = layer.width
        self.alpha, self.delta = (vector(0.2 * torch.randn(width, modes)) for _ in range(2))
        share = width ** (-torch.arange(1, width + 1, dtype=torch.get_default_dtype()) / width)
        self.theta = vector(torch.logit(share)[torch.randperm(width)])
        self.gamma = vector(torch.stack([torch.randn(width, modes), torch.zeros(width, modes)]))  # real, imaginary
        self.omega = vector(torch.nn.init.trunc_normal_(torch.empty(width), std=0.25, a=-1.0, b=1.0))
        self.gain, self.eps = self.out_gain(layer), layer.norm_eps

    def mode(self) -> tuple[Tensor, Tensor, Tensor]:
        """α, in at least float32, and ln(1−αδ) and θ_k (D, N), in float64: thousands of tokens multiply them."""
        alpha, delta = self.alpha.double().sigmoid(), self.delta.double().sigmoid()
        count = torch.arange(1, alpha.size(1) + 1, device=alpha.device, dtype=alpha.dtype)
        angle = self.theta.double().sigmoid()[:, None] * (2 * math.pi / alpha.size(1)) * count
        return alpha.to(wide(self.alpha).dtype), torch.log1p(-alpha * delta), angle

    def kernel(self, length: int) -> Tensor:
        """(T, D): the weight of a token l tokens later. l = i c + j, so that powers are made of two short tables."""
        alpha, log_decay, angle = self.mode()
        size = math.isqrt(length - 1) + 1
        gamma = wide(self.gamma) * alpha
        fine = powers(log_decay, angle, gamma.dtype, 0, size)
        coarse = powers(log_decay, angle, gamma.dtype, 0, -(-length // size), size)
        real = gamma[0] * coarse[0] - gamma[1] * coarse[1]
        imaginary = gamma[0] * coarse[1] + gamma[1] * coarse[0]
        left, right = torch.cat([real, -imaginary], dim=-1), torch.cat([fine[0], fine[1]], dim=-1)
        table = left.transpose(0, 1) @ right.permute(1, 2, 0)  # (D, T/c, c)
        return table.flatten(1)[:, :length].T / math.sqrt(alpha.size(1))

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        y = long_convolution(wide(u), self.kernel(u.size(1)))
        if state is not None:
            y = self.carried(wide(u), y, state)
        return rms_norm(torch.addcmul(y, wide(self.omega), wide(u)), self.gain, self.eps).to(u.dtype)

    def carried(self, u: Tensor, y: Tensor, state: State) -> Tensor:
        """y with what came before this pass; keeps h for the next one.

        Tokens l = i c + j, so that powers are made of two short tables, as in `kernel`.
        """
        alpha, log_decay, angle = self.mode()
        length, before = u.size(1), state.get(self, "state")  # (B, D, N, 2)
        size = math.isqrt(length - 1) + 1
        count = -(-length // size)
        power = partial(powers, log_decay, angle, u.dtype)
        coarse, fine = power(0, count, size), power(0, size)
        ages = F.pad(u.flip(1), (0, 0, 0, count * size - length)).unflatten(1, (count, size))  # 0 is the newest token
        near = [torch.einsum("bijd,jdn->bidn", ages, part) for part in fine]
        last = torch.stack([x.sum(1) * alpha for x in turned(near[0], near[1], *coarse)], dim=-1)
        if before is not None:
            h = before.unsqueeze(1).unbind(-1)
            gamma = wide(self.gamma)
            read_by = turned(gamma[0], gamma[1], *power(1, count, size))  # γ q^{ic+1}
            real, imaginary = turned(h[0], h[1], *read_by)
            read = torch.einsum("bidn,jdn->bijd", real, fine[0]) - torch.einsum("bidn,jdn->bijd", imaginary, fine[1])
            y = y + read.flatten(1, 2)[:, :length] / math.sqrt(alpha.size(1))
            left = turned(h[0], h[1], *power(length, 1))
            last = last + torch.stack(left, dim=-1).squeeze(1)
        state.set(self, "state", last)
        return y

    def forward(self, u: Tensor, state: State | None) -> Tensor | AttentionInputs:
        mixed = super().forward(u, state)
        return AttentionInputs(mixed, mixed, u) if self.site == "attention_input" else mixed

    def probes(self) -> dict[str, Tensor]:
        alpha, delta = self.alpha.sigmoid(), self.delta.sigmoid()
        return {"kept": (1 - alpha * delta).mean()} | self.gain_probe(self.gain)


def powers(
    log_decay: Tensor, angle: Tensor, dtype: torch.dtype, first: int, count: int, step: int = 1
) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of q^l (count, D, N) in `dtype`, l = first, first + step, …; q = e^{log_decay + i angle}."""
    age = first + step * torch.arange(count, device=angle.device, dtype=angle.dtype)[:, None, None]
    size, turn = torch.exp(age * log_decay), age * angle
    return (size * torch.cos(turn)).to(dtype), (size * torch.sin(turn)).to(dtype)


def turned(real: Tensor, imaginary: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of the product of two complex numbers."""
    return real * cos - imaginary * sin, real * sin + imaginary * cos


cema = preset(Cema)
