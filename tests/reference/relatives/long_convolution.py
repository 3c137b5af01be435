"""Long convolutions: the complex exponential moving average of Megalodon."""

import math

import torch
from torch import Tensor

from .mixer import Mixer
from .starts import Normal, Permuted, zeros


class Cema(Mixer):
    """h_k = α u + (1 − α δ) e^{iθ_k} h_k per channel and mode k = 1 .. N, z = RMSNorm(Re(γ·h)/√N + ω u).

    α = σ(alpha), δ = σ(delta), θ_k = σ(theta)·2πk/N; γ is gamma_re + i gamma_im. At attention's input v takes u, and q and k take
    u + gain ⊙ z, as the FFN does at its own; `residual=False`: z. theta starts as logit(D^{−j/D}), j = 1 .. D, permuted.
    """

    settings = {"site": "attention_input", "residual": True, "every": None, "modes": 16}

    def mix_shapes(self, layer):
        modes = dict.fromkeys(["alpha", "delta", "gamma_re", "gamma_im"], (layer.width, self.modes))
        return modes | dict.fromkeys(["theta", "omega", *self.last_gain(layer)], (layer.width,))

    def mix_start(self, layer):
        share = layer.width ** (-torch.arange(1, layer.width + 1, dtype=torch.float64) / layer.width)
        return {
            "alpha": Normal(0.2),
            "delta": Normal(0.2),
            "gamma_re": Normal(1.0),
            "gamma_im": zeros(layer.width, self.modes),
            "theta": Permuted(torch.log(share / (1 - share))),
            "omega": Normal(0.25, cut=1.0),
        } | self.last_gain(layer)

    def average(self, m: int, u: Tensor) -> Tensor:
        """z before its norm, step by step with real numbers."""
        own = self.own(m)
        alpha, delta = torch.sigmoid(own["alpha"]), torch.sigmoid(own["delta"])
        angle = torch.sigmoid(own["theta"])[:, None] * 2 * math.pi / self.modes
        angle = angle * torch.arange(1, self.modes + 1, dtype=u.dtype)
        decay = 1 - alpha * delta
        re = im = torch.zeros(u.shape[0], *alpha.shape, dtype=u.dtype)
        rows = []
        for t in range(u.shape[1]):
            turned_re = decay * (torch.cos(angle) * re - torch.sin(angle) * im)
            turned_im = decay * (torch.sin(angle) * re + torch.cos(angle) * im)
            re, im = alpha * u[:, t, :, None] + turned_re, turned_im
            rows.append((own["gamma_re"] * re - own["gamma_im"] * im).sum(dim=-1))
        return torch.stack(rows, dim=1) / math.sqrt(self.modes) + own["omega"] * u

    def mix(self, m, u):
        return self.last_norm(m, self.average(m, u))

    def attention_inputs(self, m, u, u_key, u_value):
        if self.site == "attention_input" and self.acts(m):
            z = self.mixed(m, u)
            return z, z, u
        return u, u_key, u_value
