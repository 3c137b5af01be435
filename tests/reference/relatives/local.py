"""Local mixers: Canon layers, token shift, Primer's convolutions, the shift of keys and values, smear.

Taps are (channels, K), the tap of the current token first.
"""

import torch
from torch import Tensor

from ..temporal import back
from .host import Model
from .mixer import taps
from .starts import full, symmetric, zeros


class Canon(Model):
    """z_t = u_t + Σ_k w_k ⊙ u_{t−k} (`residual=False`: without u_t) at sites A (after N1), B (joined q, k, v before positions),
    C (after N2), D (joined gate and up); one tensor `w_a` … each."""

    settings = {"sites": "ABCD", "residual": True, "taps": 4}

    def shapes(self, layer):
        heads = layer.num_heads + 2 * layer.num_kv_heads
        widths = {"A": layer.width, "B": heads * layer.head_dim, "C": layer.width, "D": 2 * layer.ffn_dim}
        return {f"w_{site.lower()}": (widths[site], self.taps) for site in self.sites}

    def start(self, layer):
        return dict.fromkeys(self.shapes(layer), symmetric(self.taps**-0.5))

    def at(self, m: int, site: str, u: Tensor) -> Tensor:
        if site not in self.sites:
            return u
        z = taps(u, self.own(m)[f"w_{site.lower()}"])
        return u + z if self.residual else z

    def attention_inputs(self, m, u, u_key, u_value):
        z = self.at(m, "A", u)
        return z, z, z

    def projected(self, m, q, k, v, u):
        joined = self.at(m, "B", torch.cat([q, k, v], dim=-1))
        return joined.split([q.shape[-1], k.shape[-1], v.shape[-1]], dim=-1)

    def ffn_input(self, m, u):
        return self.at(m, "C", u)

    def ffn_inner(self, m, gate, up):
        return self.at(m, "D", torch.cat([gate, up], dim=-1)).chunk(2, dim=-1)


class TokenShift(Model):
    """x_□ = μ_□ ⊙ u_t + (1 − μ_□) ⊙ u_{t−1} for the consumers r (the query), k and v of attention, and for the FFN.

    `sites`: where. Start, with channel i/D from 0, ρ = 1 − l/L, τ = l/(L − 1) (0 in a single layer): k i^ρ, v i^ρ + 0.3τ,
    r i^{ρ/2}, FFN i^(ρ^`ffn_power`).
    """

    settings = {"sites": ("attention_input", "ffn"), "ffn_power": 1}

    def consumers(self) -> list[str]:
        attention = ["r", "k", "v"] if "attention_input" in self.sites else []
        return attention + (["ffn"] if "ffn" in self.sites else [])

    def shapes(self, layer):
        return {f"mu_{consumer}": (layer.width,) for consumer in self.consumers()}

    def shares(self, layer) -> dict[str, Tensor]:
        """μ of every consumer at the start."""
        channel = torch.arange(layer.width, dtype=torch.float64) / layer.width
        rho = 1 - layer.index / layer.num_layers
        tau = layer.index / (layer.num_layers - 1) if layer.num_layers > 1 else 0.0
        every = {
            "r": channel ** (rho / 2),
            "k": channel**rho,
            "v": channel**rho + 0.3 * tau,
            "ffn": channel ** (rho**self.ffn_power),
        }
        return {consumer: every[consumer] for consumer in self.consumers()}

    def start(self, layer):
        return {f"mu_{consumer}": share for consumer, share in self.shares(layer).items()}

    def shifted(self, m: int, consumer: str, u: Tensor) -> Tensor:
        mu = self.own(m)[f"mu_{consumer}"]
        return mu * u + (1 - mu) * back(u, 1)

    def attention_inputs(self, m, u, u_key, u_value):
        if "attention_input" not in self.sites:
            return u, u_key, u_value
        return self.shifted(m, "r", u), self.shifted(m, "k", u), self.shifted(m, "v", u)

    def ffn_input(self, m, u):
        return self.shifted(m, "ffn", u) if "ffn" in self.sites else u


class TokenShiftLora(TokenShift):
    """x_□ = u + Δ ⊙ (λ_□ + tanh((u + Δ ⊙ μ_x) A_□) B_□), Δ = u_{t−1} − u_t; one μ_x per site, the FFN has a map too."""

    settings = {"sites": ("attention_input", "ffn"), "ffn_power": 1, "rank": 32}

    def shapes(self, layer):
        shapes = {}
        for consumer in self.consumers():
            shapes |= {f"lambda_{consumer}": (layer.width,), f"a_{consumer}": (layer.width, self.rank)}
            shapes |= {f"b_{consumer}": (self.rank, layer.width)}
        return shapes | {f"mu_x_{site}": (layer.width,) for site in self.sites}

    def start(self, layer):
        values = {}
        for consumer, share in self.shares(layer).items():
            values |= {f"lambda_{consumer}": 1 - share, f"a_{consumer}": zeros(layer.width, self.rank)}
            values |= {f"b_{consumer}": symmetric(0.01)}
        channel = torch.arange(layer.width, dtype=torch.float64) / layer.width
        mu_x = 1 - channel ** (1 - layer.index / layer.num_layers)
        return values | {f"mu_x_{site}": mu_x for site in self.sites}

    def shifted(self, m, consumer, u):
        own, delta = self.own(m), back(u, 1) - u
        base = u + delta * own["mu_x_ffn" if consumer == "ffn" else "mu_x_attention_input"]
        low = torch.tanh(base @ own[f"a_{consumer}"]) @ own[f"b_{consumer}"]
        return u + delta * (own[f"lambda_{consumer}"] + low)


class PrimerDconv(Model):
    """q'_t = Σ_{k<3} w_k ⊙ q_{t−k}, k and v alike, before positions; w_0 = ½, the others ½/K."""

    settings = {"taps": 3}

    def shapes(self, layer):
        counts = {"q": layer.num_heads, "k": layer.num_kv_heads, "v": layer.num_kv_heads}
        return {f"w_{name}": (count * layer.head_dim, self.taps) for name, count in counts.items()}

    def start(self, layer):
        values = {}
        for name, shape in self.shapes(layer).items():
            values[name] = full(0.5 / self.taps, *shape)
            values[name][:, 0] = 0.5
        return values

    def projected(self, m, q, k, v, u):
        own = self.own(m)
        return taps(q, own["w_q"]), taps(k, own["w_k"]), taps(v, own["w_v"])


class KvShift(Model):
    """k_t = α_t k̃_{t−1} + (1 − α_t) k̃_t per key head before positions, α = σ(u w_k); v with its own w_v. k̃_{−1} = 0."""

    def shapes(self, layer):
        return {"w_k": (layer.width, layer.num_kv_heads), "w_v": (layer.width, layer.num_kv_heads)}

    def start(self, layer):
        return dict.fromkeys(self.shapes(layer), symmetric(layer.width**-0.5))

    def shifted(self, x: Tensor, w: Tensor, u: Tensor) -> Tensor:
        share = torch.sigmoid(u @ w).repeat_interleave(x.shape[-1] // w.shape[1], dim=-1)
        return share * back(x, 1) + (1 - share) * x

    def projected(self, m, q, k, v, u):
        return q, self.shifted(k, self.own(m)["w_k"], u), self.shifted(v, self.own(m)["w_v"], u)


class Smear(Model):
    """e'_t = e_t + λ σ(w·e_t[:dims]) e_{t−1} at the embedding, in place of x_1; in layer 1's parameters."""

    settings = {"dims": 12}

    def shapes(self, layer):
        return {"lambda": (), "w": (min(self.dims, layer.width),)} if layer.number == 1 else {}

    def start(self, layer):
        return {name: zeros(*shape) for name, shape in self.shapes(layer).items()}

    def embedded(self, x):
        own = self.own(1)
        gate = torch.sigmoid(x[..., : own["w"].numel()] @ own["w"])
        return x + own["lambda"] * gate[..., None] * back(x, 1)
