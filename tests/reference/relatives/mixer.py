"""A temporal mixer at one site, and arithmetic that several of them share."""

import torch
from torch import Tensor

from ..blocks import rms_norm
from ..temporal import back
from .host import Model, Shapes
from .starts import full, zeros


class Mixer(Model):
    """z from u at a site: in attention's place, at attention's input, or at the FFN's.

    At the two inputs `residual` makes it u + z. `every` = n leaves every n-th layer (n, 2n …) a plain block.
    """

    settings = {"site": "attention", "residual": True, "every": None}

    def __init__(self, **settings):
        super().__init__(**settings)
        if self.site not in ("attention", "attention_input", "ffn"):
            raise ValueError(f"unknown site {self.site!r}")
        if self.every is not None and self.every < 2:
            raise ValueError("every = 1 would leave no layer to mix in")

    def acts(self, m: int) -> bool:
        return self.every is None or m % self.every != 0

    def added(self) -> bool:
        """Whether z is added to u."""
        return self.residual and self.site != "attention"

    def mix(self, m: int, u: Tensor) -> Tensor:
        raise NotImplementedError

    def last_norm(self, m: int, x: Tensor) -> Tensor:
        """RMSNorm of a mixer that has no output matrix; it has a gain where z is added, or written in attention's place."""
        return rms_norm(x, self.eps, self.own(m).get("gain"))

    def last_gain(self, layer) -> dict[str, Tensor]:
        """From 0 where z is added; in attention's place from what W_O would make of a normed row: √D · std / √(2L)."""
        if self.added():
            return {"gain": zeros(layer.width)}
        if self.site == "attention":
            return {"gain": full(layer.init_std * (layer.width / (2 * layer.num_layers)) ** 0.5, layer.width)}
        return {}

    def mix_shapes(self, layer) -> Shapes:
        raise NotImplementedError

    def mix_start(self, layer) -> dict:
        raise NotImplementedError

    def shapes(self, layer):
        return self.mix_shapes(layer) if self.acts(layer.number) else {}

    def start(self, layer):
        return self.mix_start(layer) if self.acts(layer.number) else {}

    def mixed(self, m: int, u: Tensor) -> Tensor:
        return u + self.mix(m, u) if self.added() else self.mix(m, u)

    def mixer(self, m, u, u_key, u_value):
        if self.site == "attention" and self.acts(m):
            return self.mix(m, u)
        return super().mixer(m, u, u_key, u_value)

    def attention_inputs(self, m, u, u_key, u_value):
        if self.site == "attention_input" and self.acts(m):
            z = self.mixed(m, u)
            return z, z, z
        return u, u_key, u_value

    def ffn_input(self, m, u):
        return self.mixed(m, u) if self.site == "ffn" and self.acts(m) else u


def taps(u: Tensor, w: Tensor) -> Tensor:
    """Σ_k w[:, k] u_{t−k}, k from 0; w is (channels, K)."""
    return sum(w[:, k] * back(u, k) for k in range(w.shape[1]))


def silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def softplus(x: Tensor) -> Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))


def inverse_softplus(y: Tensor) -> Tensor:
    return y + torch.log(-torch.expm1(-y))


def split_heads(x: Tensor, count: int) -> Tensor:
    """(B, T, count*w) as (B, T, count, w)."""
    return x.unflatten(-1, (count, -1))
