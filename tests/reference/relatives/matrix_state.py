"""Matrix-state mixers: linear attention, retention, GLA, Mamba-2, DeltaNet, gated DeltaNet; each recurrence in its plainest form.

Queries and keys are (B, T, H, K), values (B, T, H, V). `heads` None is the host's number of heads; `key_width` and
`value_width` are per head, None follows from D and the heads as each class says. No rotary positions unless said.
"""

import math

import torch
from torch import Tensor

from ..blocks import rms_norm
from .diagonal import dt_start
from .mixer import Mixer, silu, softplus, split_heads, taps
from .scores import euclidean
from .starts import Derived, Normal, Uniform, full, symmetric, zeros
from .streams import layer_norm

WIDTHS = {"heads": None, "key_width": None, "value_width": None}
PLACE = {"site": "attention", "residual": True, "every": None}


def xavier(inputs: int, outputs: int, gain: float):
    return symmetric(gain * math.sqrt(6 / (inputs + outputs)))


class MatrixState(Mixer):
    """u → q, k, v, what comes of them per head, an output matrix."""

    settings = PLACE | WIDTHS

    def count(self, layer) -> int:
        return layer.num_heads if self.heads is None else self.heads

    def widths(self, layer) -> tuple[int, int]:
        """K and V: D over the heads."""
        each = layer.width // self.count(layer)
        return self.key_width or each, self.value_width or each

    def totals(self, layer) -> tuple[int, int]:
        """H·K and H·V."""
        key, value = self.widths(layer)
        return self.count(layer) * key, self.count(layer) * value

    def qkvo_shapes(self, layer):
        width, (keys, values) = layer.width, self.totals(layer)
        return {"w_q": (width, keys), "w_k": (width, keys), "w_v": (width, values), "w_o": (values, width)}

    def mix_shapes(self, layer):
        return self.qkvo_shapes(layer)

    def output_start(self, layer, start):
        """W_o's: 0 where z is added to u."""
        return zeros(*self.qkvo_shapes(layer)["w_o"]) if self.added() else start

    def qkv(self, m: int, u: Tensor) -> list[Tensor]:
        own, count = self.own(m), self.count(self.sizes[m - 1])
        return [split_heads(u @ own[name], count) for name in ("w_q", "w_k", "w_v")]


def linear_sums(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """o_t = Σ_{s≤t} (q_t·k_s) v_s."""
    rows = []
    for t in range(q.shape[1]):
        match = (q[:, t, None] * k[:, : t + 1]).sum(dim=-1, keepdim=True)  # (B, t + 1, H, 1)
        rows.append((match * v[:, : t + 1]).sum(dim=1))
    return torch.stack(rows, dim=1)


class LinearAttention(MatrixState):
    """o_t = Σ_{s≤t} (φ(q_t)·φ(k_s)) v_s / (Σ_{s≤t} φ(q_t)·φ(k_s) + 1e-6), φ = elu + 1.

    `norm="rms"`: without the denominator, an RMSNorm per head without gain; `norm=None`: neither. `phi="identity"`: φ = x.
    """

    settings = PLACE | WIDTHS | {"norm": "sum", "phi": "elu"}

    def mix_start(self, layer):
        values = dict.fromkeys(["w_q", "w_k", "w_v"], Normal(layer.init_std))
        return values | {"w_o": self.output_start(layer, Normal(layer.init_std / math.sqrt(2 * layer.num_layers)))}

    def mix(self, m, u):
        q, k, v = self.qkv(m, u)
        if self.phi == "elu":
            q, k = (torch.where(x > 0, x + 1, torch.exp(x)) for x in (q, k))
        o = linear_sums(q, k, v)
        if self.norm == "sum":
            o = o / (linear_sums(q, k, torch.ones_like(v[..., :1])) + 1e-6)
        if self.norm == "rms":
            o = rms_norm(o, self.eps)
        return o.flatten(2) @ self.own(m)["w_o"]


def retention_decays(count: int, linspace: bool) -> Tensor:
    """γ_h."""
    if linspace:
        return 1 - torch.exp(torch.linspace(math.log(1 / 32), math.log(1 / 512), count, dtype=torch.float64))
    return 1 - 2.0 ** (-5 - torch.arange(count, dtype=torch.float64))


def retained(q: Tensor, k: Tensor, v: Tensor, gamma: Tensor) -> Tensor:
    """o_t = Σ_{s≤t} γ^{t−s} (q_t·k_s) v_s: the parallel form."""
    rows = []
    for t in range(q.shape[1]):
        row = torch.zeros_like(v[:, 0])
        for s in range(t + 1):
            row = row + gamma[:, None] ** (t - s) * (q[:, t] * k[:, s]).sum(dim=-1, keepdim=True) * v[:, s]
        rows.append(row)
    return torch.stack(rows, dim=1)


def retention_turn(x: Tensor) -> Tensor:
    """Dims (2j, 2j+1) of x (B, T, H, K) turned by t · 10000^{−j/(K/2−1)}; a single pair turns by t."""
    pairs = x.shape[-1] // 2
    position = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
    columns = []
    for j in range(pairs):
        angle = position * 10000 ** (-j / max(pairs - 1, 1))
        even, odd = x[..., 2 * j], x[..., 2 * j + 1]
        columns.append(even * torch.cos(angle) - odd * torch.sin(angle))
        columns.append(even * torch.sin(angle) + odd * torch.cos(angle))
    return torch.stack(columns, dim=-1)


class Retention(MatrixState):
    """S_t = γ_h S_{t−1} + k_t ⊗ v_t, o = RMSNorm_h(S_tᵀ q_t) without gain; q and k turned, k/√K; z = (SiLU(u W_g) ⊙ o) W_o.

    K must be even; V = K unless `value_width` says otherwise. `linspace`: the γ of the authors' experiments.
    """

    settings = PLACE | WIDTHS | {"linspace": False}

    def widths(self, layer):
        key = self.key_width or layer.width // self.count(layer)
        if key % 2:
            raise ValueError(f"retention turns pairs: a key width of {key} is odd")
        return key, self.value_width or key

    def mix_shapes(self, layer):
        return self.qkvo_shapes(layer) | {"w_g": (layer.width, self.totals(layer)[1])}

    def mix_start(self, layer):
        shapes = self.mix_shapes(layer)
        values = {name: xavier(*shape, gain=2**-2.5) for name, shape in shapes.items()}
        return values | {"w_o": self.output_start(layer, xavier(*shapes["w_o"], gain=0.5))}

    def mix(self, m, u):
        own, (q, k, v) = self.own(m), self.qkv(m, u)
        gamma = retention_decays(q.shape[2], self.linspace)
        o = rms_norm(retained(retention_turn(q), retention_turn(k) / math.sqrt(k.shape[-1]), v, gamma), self.eps)
        return (silu(u @ own["w_g"]) * o.flatten(2)) @ own["w_o"]


def channel_decayed(q: Tensor, k: Tensor, v: Tensor, alpha: Tensor) -> Tensor:
    """S_t = diag(α_t) S_{t−1} + k_t ⊗ v_t, o_t = S_tᵀ q_t; α (B, T, H, K)."""
    state, rows = torch.zeros(*k.shape[:1], *k.shape[2:], v.shape[-1], dtype=v.dtype), []
    for t in range(q.shape[1]):
        state = alpha[:, t, :, :, None] * state + k[:, t, :, :, None] * v[:, t, :, None, :]
        rows.append((state * q[:, t, :, :, None]).sum(dim=-2))
    return torch.stack(rows, dim=1)


class Gla(MatrixState):
    """S = diag(α) S + k ⊗ v, α = σ(u W1 W2 + b)^{1/16}, o = Sᵀq/√K; z = (SiLU(u W_r + b_r) ⊙ norm_h(o)) W_o.

    K = ⌊D/(2·heads)⌋, V = ⌊D/heads⌋. `norm`: "layer" (no gain) or "rms" (a gain of V, shared by heads). `conv`: SiLU(conv4(·))
    on q, k and v.
    """

    settings = PLACE | WIDTHS | {"heads": 4, "norm": "layer", "conv": False, "rank": 16}

    def widths(self, layer):
        count = self.count(layer)
        return self.key_width or layer.width // (2 * count), self.value_width or layer.width // count

    def mix_shapes(self, layer):
        width, (keys, values) = layer.width, self.totals(layer)
        shapes = self.qkvo_shapes(layer) | {"w_r": (width, values), "b_r": (values,)}
        shapes |= {"w_1": (width, self.rank), "w_2": (self.rank, keys), "b": (keys,)}
        if self.norm == "rms":
            shapes |= {"gain": (self.widths(layer)[1],)}
        if self.conv:
            shapes |= {"conv_q": (keys, 4), "conv_k": (keys, 4), "conv_v": (values, 4)}
        return shapes

    def mix_start(self, layer):
        values = {}
        for name, shape in self.mix_shapes(layer).items():
            if name in ("w_q", "w_k", "w_1", "w_2"):
                values[name] = xavier(*shape, gain=2**-2.5)
            elif name.startswith("conv"):
                values[name] = symmetric(0.5)
            else:
                values[name] = (
                    zeros(*shape) if name[0] == "b" else full(1.0, *shape) if name == "gain" else Normal(0.02)
                )
        return values | {"w_o": self.output_start(layer, Normal(0.02))}

    def mix(self, m, u):
        own, count = self.own(m), self.count(self.sizes[m - 1])
        q, k, v = (u @ own[name] for name in ("w_q", "w_k", "w_v"))
        if self.conv:
            q, k, v = silu(taps(q, own["conv_q"])), silu(taps(k, own["conv_k"])), silu(taps(v, own["conv_v"]))
        q, k, v = (split_heads(x, count) for x in (q, k, v))
        alpha = torch.sigmoid(u @ own["w_1"] @ own["w_2"] + own["b"]) ** (1 / 16)
        o = channel_decayed(q, k, v, split_heads(alpha, count)) / math.sqrt(q.shape[-1])
        o = layer_norm(o, self.eps) if self.norm == "layer" else rms_norm(o, self.eps, own["gain"])
        return (silu(u @ own["w_r"] + own["b_r"]) * o.flatten(2)) @ own["w_o"]


def state_space_dual(x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """S_t = e^{Δ_t A_h} S_{t−1} + B_t ⊗ (Δ_t x_t), y_t = S_tᵀ C_t; x (B, T, H, P), Δ (B, T, H), A (H), B and C (B, T, N)."""
    state, rows = torch.zeros(x.shape[0], x.shape[2], b.shape[-1], x.shape[-1], dtype=x.dtype), []
    for t in range(x.shape[1]):
        decay = torch.exp(delta[:, t] * a)[:, :, None, None]
        state = decay * state + b[:, t, None, :, None] * (delta[:, t, :, None] * x[:, t])[:, :, None, :]
        rows.append((state * c[:, t, None, :, None]).sum(dim=-2))
    return torch.stack(rows, dim=1)


class Mamba2(Mixer):
    """[g, x, B, C, τ] = u W_in; x, B, C = SiLU(conv4(·) + b); Δ = softplus(τ + b_Δ); z = RMSNorm((y + D x) ⊙ SiLU(g)) W_out.

    E = `expansion`·D in heads of `head_width` (None: 64, or what 64 and E have in common), N = `states`;
    the norm is over all E, with a gain and the host's ε.
    """

    settings = PLACE | {"expansion": 2, "head_width": None, "states": 128}

    def inner(self, layer) -> tuple[int, int]:
        """E and the number of heads."""
        width = self.expansion * layer.width
        head_width = math.gcd(width, 64) if self.head_width is None else self.head_width
        if width % head_width:
            raise ValueError(f"an inner width of {width} has no heads of {head_width}")
        return width, width // head_width

    def mix_shapes(self, layer):
        inner, count = self.inner(layer)
        joined = inner + 2 * self.states
        return {
            "w_in": (layer.width, inner + joined + count),
            "conv": (joined, 4),
            "b_c": (joined,),
            "b_delta": (count,),
            "a_log": (count,),
            "d": (count,),
            "gain": (inner,),
            "w_out": (inner, layer.width),
        }

    def mix_start(self, layer):
        inner, count = self.inner(layer)
        out = symmetric(inner**-0.5 / math.sqrt(layer.num_layers))
        values = {"w_in": symmetric(layer.width**-0.5), "conv": symmetric(0.5), "b_c": symmetric(0.5)}
        values |= {"b_delta": dt_start(), "a_log": Derived(torch.log, torch.exp, Uniform(1.0, 16.0))}
        values |= {"d": full(1.0, count), "gain": full(1.0, inner)}
        return values | {"w_out": zeros(inner, layer.width) if self.added() else out}

    def mix(self, m, u):
        own, (inner, count) = self.own(m), self.inner(self.sizes[m - 1])
        gate, joined, tau = (u @ own["w_in"]).split([inner, inner + 2 * self.states, count], dim=-1)
        x, b, c = silu(taps(joined, own["conv"]) + own["b_c"]).split([inner, self.states, self.states], dim=-1)
        x, delta = split_heads(x, count), softplus(tau + own["b_delta"])
        y = state_space_dual(x, delta, -torch.exp(own["a_log"]), b, c) + own["d"][:, None] * x
        return rms_norm(y.flatten(2) * silu(gate), self.eps, own["gain"]) @ own["w_out"]


def delta_rule(q: Tensor, k: Tensor, v: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """S ← α_t S; S ← S + k_t ⊗ β_t (v_t − Sᵀ k_t); o_t = Sᵀ q_t; α and β (B, T, H)."""
    state, rows = torch.zeros(*k.shape[:1], *k.shape[2:], v.shape[-1], dtype=v.dtype), []
    for t in range(q.shape[1]):
        state = alpha[:, t, :, None, None] * state
        there = (state * k[:, t, :, :, None]).sum(dim=-2)  # Sᵀ k
        written = beta[:, t, :, None] * (v[:, t] - there)
        state = state + k[:, t, :, :, None] * written[:, :, None, :]
        rows.append((state * q[:, t, :, :, None]).sum(dim=-2))
    return torch.stack(rows, dim=1)


class DeltaNet(MatrixState):
    """q, k = L2norm(SiLU(conv4(u W))) per head, v = SiLU(conv4(u W_v)), β = σ(u W_β) (`negative`: 2σ); delta rule with q/√K.

    z = RMSNorm_h(o) W_o, with a gain of V shared by heads and the host's ε.
    """

    settings = PLACE | WIDTHS | {"negative": False}

    def mix_shapes(self, layer):
        keys, values = self.totals(layer)
        convs = {"conv_q": (keys, 4), "conv_k": (keys, 4), "conv_v": (values, 4)}
        rest = {"w_beta": (layer.width, self.count(layer)), "gain": (self.widths(layer)[1],)}
        return self.qkvo_shapes(layer) | convs | rest

    def mix_start(self, layer):
        values = dict.fromkeys(["conv_q", "conv_k", "conv_v"], symmetric(0.5))
        values |= {name: Normal(0.02) for name in self.mix_shapes(layer) if name.startswith("w_")}
        return values | {"gain": full(1.0, self.widths(layer)[1]), "w_o": self.output_start(layer, Normal(0.02))}

    def alpha(self, m: int, u: Tensor) -> Tensor:
        return torch.ones(*u.shape[:2], self.count(self.sizes[m - 1]), dtype=u.dtype)

    def heads_out(self, m: int, u: Tensor) -> Tensor:
        """RMSNorm_h(o), heads joined."""
        own, count = self.own(m), self.count(self.sizes[m - 1])
        q, k, v = (split_heads(silu(taps(u @ own[f"w_{x}"], own[f"conv_{x}"])), count) for x in "qkv")
        beta = torch.sigmoid(u @ own["w_beta"]) * (2 if self.negative else 1)
        q, k = euclidean(q) / math.sqrt(q.shape[-1]), euclidean(k)
        return rms_norm(delta_rule(q, k, v, self.alpha(m, u), beta), self.eps, own["gain"]).flatten(2)

    def mix(self, m, u):
        return self.heads_out(m, u) @ self.own(m)["w_o"]


class GatedDeltaNet(DeltaNet):
    """deltanet with α = exp(−e^{A_log} softplus(u w_a + b_Δ)) per head and an output gate: (RMSNorm_h(o) ⊙ SiLU(u W_g)) W_o.

    K = round(0.75 D / heads), V = 2K. β has no bias. `gate=False` leaves out the output gate.
    """

    settings = PLACE | WIDTHS | {"negative": False, "gate": True}

    def widths(self, layer):
        key = self.key_width or round(0.75 * layer.width / self.count(layer))
        return key, self.value_width or 2 * key

    def mix_shapes(self, layer):
        count = self.count(layer)
        shapes = super().mix_shapes(layer) | {"w_a": (layer.width, count), "b_delta": (count,), "a_log": (count,)}
        return shapes | ({"w_g": (layer.width, self.totals(layer)[1])} if self.gate else {})

    def mix_start(self, layer):
        decay = Derived(torch.log, torch.exp, Uniform(1e-3, 16.0))
        return super().mix_start(layer) | {"b_delta": dt_start(), "a_log": decay}

    def alpha(self, m, u):
        own = self.own(m)
        return torch.exp(-torch.exp(own["a_log"]) * softplus(u @ own["w_a"] + own["b_delta"]))

    def mix(self, m, u):
        own, o = self.own(m), self.heads_out(m, u)
        return (o * silu(u @ own["w_g"]) if self.gate else o) @ own["w_o"]
