"""Diagonal recurrences: Griffin's block, the RG-LRU alone, minGRU, Mamba (S6)."""

import math

import torch
from torch import Tensor

from .mixer import Mixer, inverse_softplus, silu, softplus, taps
from .starts import Derived, Normal, Uniform, full, symmetric, zeros


def scan(a: Tensor, b: Tensor) -> Tensor:
    """h_t = a_t h_{t−1} + b_t over dimension 1, h_{−1} = 0."""
    h, rows = torch.zeros_like(b[:, 0]), []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        rows.append(h)
    return torch.stack(rows, dim=1)


def blockwise(p: Tensor, w: Tensor) -> Tensor:
    """p times a block-diagonal matrix; w is (blocks, in, out), or (in, out) for one block."""
    return p @ (torch.block_diag(*w) if w.dim() == 3 else w)


def rg_lru(p: Tensor, own: dict[str, Tensor], *, first_whole: bool) -> Tensor:
    """h_t = a_t h_{t−1} + √(1 − a_t²) i_t p_t, log a = −8 softplus(Λ) r; `first_whole`: at the first token the root is 1."""
    r = torch.sigmoid(blockwise(p, own["w_r"]) + own["b_r"])
    i = torch.sigmoid(blockwise(p, own["w_i"]) + own["b_i"])
    log_a = -8 * softplus(own["lambda"]) * r
    root = torch.sqrt(-torch.expm1(2 * log_a))
    if first_whole:
        root = torch.cat([torch.ones_like(root[:, :1]), root[:, 1:]], dim=1)
    return scan(torch.exp(log_a), root * i * p)


def ring_start(ring: str) -> Derived:
    """Λ: softplus(Λ) = −ln a, with a² ~ U(.9², .999²) ("code") or a^8 ~ U(.9, .999) ("paper")."""
    power, of = {"code": (2, Uniform(0.9**2, 0.999**2)), "paper": (8, Uniform(0.9, 0.999))}[ring]
    return Derived(
        made=lambda z: inverse_softplus(-torch.log(z) / power), hidden=lambda x: torch.exp(-power * softplus(x)), of=of
    )


def gelu_tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Griffin(Mixer):
    """z = (gelu_tanh(u W_y + b_y) ⊙ h) W_o + b_o, h the RG-LRU of p = conv4(u W_x + b_x) + b_c.

    `width` R: None is 4D/3, rounded up to a multiple of the blocks; `blocks`: None is the number of heads.
    """

    settings = {"site": "attention", "residual": True, "every": None, "width": None, "blocks": None, "ring": "code"}

    def sizes_of(self, layer) -> tuple[int, int]:
        """R and the number of blocks."""
        blocks = layer.num_heads if self.blocks is None else self.blocks
        width = math.ceil(4 * layer.width / 3 / blocks) * blocks if self.width is None else self.width
        return width, blocks

    def mix_shapes(self, layer):
        width, blocks = self.sizes_of(layer)
        block = (blocks, width // blocks, width // blocks)
        vectors = dict.fromkeys(["b_y", "b_x", "b_c", "b_r", "b_i", "lambda"], (width,))
        return vectors | {
            "w_y": (layer.width, width),
            "w_x": (layer.width, width),
            "conv": (width, 4),
            "w_r": block,
            "w_i": block,
            "w_o": (width, layer.width),
            "b_o": (layer.width,),
        }

    def mix_start(self, layer):
        shapes = self.mix_shapes(layer)
        width, blocks = self.sizes_of(layer)
        values = {name: zeros(*shape) for name, shape in shapes.items() if name.startswith("b_")}
        into, gate = Normal(layer.width**-0.5), Normal((blocks / width) ** 0.5)
        out = Normal((2 / (layer.num_layers * width)) ** 0.5)
        values |= {"w_y": into, "w_x": into, "conv": Normal(0.05), "w_r": gate, "w_i": gate}
        return values | {"w_o": zeros(*shapes["w_o"]) if self.added() else out, "lambda": ring_start(self.ring)}

    def mix(self, m, u):
        own = self.own(m)
        y = gelu_tanh(u @ own["w_y"] + own["b_y"])
        p = taps(u @ own["w_x"] + own["b_x"], own["conv"]) + own["b_c"]
        return (y * rg_lru(p, own, first_whole=True)) @ own["w_o"] + own["b_o"]


class RgLru(Mixer):
    """z = gain ⊙ RMSNorm(h), h the RG-LRU of u itself; the root counts at the first token too, as in wr_7.

    `blocks`: None has dense gates D×D, else block-diagonal ones. `residual`: u + z at the two inputs; without it no gain there.
    """

    settings = {"site": "ffn", "residual": True, "every": None, "blocks": None, "ring": "code"}

    def mix_shapes(self, layer):
        width, blocks = layer.width, self.blocks
        gate = (width, width) if blocks is None else (blocks, width // blocks, width // blocks)
        rows = ["b_r", "b_i", "lambda", *self.last_gain(layer)]
        return {"w_r": gate, "w_i": gate} | dict.fromkeys(rows, (width,))

    def mix_start(self, layer):
        gate = Normal((layer.width // (self.blocks or 1)) ** -0.5)
        bias = zeros(layer.width)
        values = {"w_r": gate, "w_i": gate, "b_r": bias, "b_i": bias, "lambda": ring_start(self.ring)}
        return values | self.last_gain(layer)

    def mix(self, m, u):
        return self.last_norm(m, rg_lru(u, self.own(m), first_whole=False))


class MinGru(Mixer):
    """h_t = (1 − z_t) h_{t−1} + z_t h̃_t, z = σ(u W_z), h̃ = g(u W_h); g(x) = x + ½ for x ≥ 0, σ(x) below (`plain`: x).

    Inner width `expansion`·D. W_o stands in attention's place, where the inner width is not D, and where h is added to u.
    """

    settings = {"site": "attention", "residual": True, "every": None, "expansion": 1, "plain": False}

    def projects(self) -> bool:
        return self.site == "attention" or self.expansion != 1 or self.added()

    def mix_shapes(self, layer):
        inner = self.expansion * layer.width
        out = {"w_o": (inner, layer.width)} if self.projects() else {}
        return {"w_z": (layer.width, inner), "w_h": (layer.width, inner)} | out

    def mix_start(self, layer):
        shapes = self.mix_shapes(layer)
        values = {name: symmetric(shape[0] ** -0.5) for name, shape in shapes.items()}
        return values | ({"w_o": zeros(*shapes["w_o"])} if self.added() else {})

    def mix(self, m, u):
        own = self.own(m)
        z, raw = torch.sigmoid(u @ own["w_z"]), u @ own["w_h"]
        candidate = raw if self.plain else torch.where(raw >= 0, raw + 0.5, torch.sigmoid(raw))
        h = scan(1 - z, z * candidate)
        return h @ own["w_o"] if self.projects() else h


def dt_start() -> Derived:
    """b_Δ = softplus⁻¹(dt), dt log-uniform in [1e-3, 0.1]."""
    of = Uniform(math.log(1e-3), math.log(0.1))
    return Derived(made=lambda z: inverse_softplus(torch.exp(z)), hidden=lambda b: torch.log(softplus(b)), of=of)


def selective_scan(x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """S6: h_t = e^{Δ_t A} ⊙ h_{t−1} + (Δ_t x_t) ⊗ B_t, y_t = h_t C_t; x, Δ (B, T, E), A (E, N), B and C (B, T, N)."""
    h, rows = torch.zeros(x.shape[0], *a.shape, dtype=x.dtype), []
    for t in range(x.shape[1]):
        decay = torch.exp(delta[:, t, :, None] * a)
        h = decay * h + (delta[:, t] * x[:, t])[:, :, None] * b[:, t, None, :]
        rows.append((h * c[:, t, None, :]).sum(dim=-1))
    return torch.stack(rows, dim=1)


class Mamba(Mixer):
    """[x; g] = u W_in, x = SiLU(conv4(x) + b_c), [δ, B, C] = x W_x, Δ = softplus(δ W_Δ + b_Δ), z = ((S6 + D ⊙ x) ⊙ SiLU(g)) W.

    E = `expansion`·D, N = `states`, R = `rank` (None: ⌈D/16⌉). W_out starts √(2L) smaller, since the FFN stays.
    """

    settings = {"site": "attention", "residual": True, "every": None, "expansion": 2, "states": 16, "rank": None}

    def sizes_of(self, layer) -> tuple[int, int]:
        """E and R."""
        return self.expansion * layer.width, math.ceil(layer.width / 16) if self.rank is None else self.rank

    def mix_shapes(self, layer):
        inner, rank = self.sizes_of(layer)
        return {
            "w_in": (layer.width, 2 * inner),
            "conv": (inner, 4),
            "b_c": (inner,),
            "w_x": (inner, rank + 2 * self.states),
            "w_delta": (rank, inner),
            "b_delta": (inner,),
            "a_log": (inner, self.states),
            "d": (inner,),
            "w_out": (inner, layer.width),
        }

    def mix_start(self, layer):
        inner, rank = self.sizes_of(layer)
        rows = torch.log(torch.arange(1, self.states + 1, dtype=torch.float64)).repeat(inner, 1)
        out = symmetric(inner**-0.5 / math.sqrt(2 * layer.num_layers))
        values = {"w_in": symmetric(layer.width**-0.5), "conv": symmetric(0.5), "b_c": symmetric(0.5)}
        values |= {"w_x": symmetric(inner**-0.5), "w_delta": symmetric(rank**-0.5), "b_delta": dt_start()}
        values |= {"a_log": rows, "d": full(1.0, inner)}
        return values | {"w_out": zeros(inner, layer.width) if self.added() else out}

    def mix(self, m, u):
        own = self.own(m)
        x, gate = (u @ own["w_in"]).chunk(2, dim=-1)
        x = silu(taps(x, own["conv"]) + own["b_c"])
        rank = own["w_delta"].shape[0]
        low, b, c = (x @ own["w_x"]).split([rank, self.states, self.states], dim=-1)
        delta = softplus(low @ own["w_delta"] + own["b_delta"])
        y = selective_scan(x, delta, -torch.exp(own["a_log"]), b, c) + own["d"] * x
        return (y * silu(gate)) @ own["w_out"]
