"""Scores and attention maps: realformer, talking heads, differential, fox, alibi, sinks, and those that rescale logits.

S are the logits Q Kᵀ / √d per query head after positions. Positions are the host's: `Weights.rope_theta` None leaves them out,
which is how fox and alibi were published.
"""

import math

import torch
from torch import Tensor

from ..blocks import causal_softmax, rms_norm
from .host import Model
from .starts import Normal, full, symmetric, zeros


def past(length: int) -> Tensor:
    """(T, T): whether query i may see key j."""
    return torch.ones(length, length, dtype=torch.bool).tril()


class RealFormer(Model):
    """S_m = Σ_{i≤m} Q_i K_iᵀ / √d; `mean`: divided by m."""

    settings = {"mean": False}

    def scores(self, m, q, k, u):
        self.memory[m] = super().scores(m, q, k, u)
        total = sum(self.memory[i] for i in range(1, m + 1))
        return total / m if self.mean else total


class TalkingHeads(Model):
    """S' = P S over heads before mask and softmax (`pre`), A' = W A after them (`post`)."""

    settings = {"pre": True, "post": True}

    def shapes(self, layer):
        there = {"p": self.pre, "w": self.post}
        return {name: (layer.num_heads, layer.num_heads) for name, wanted in there.items() if wanted}

    def start(self, layer):
        return {name: torch.eye(layer.num_heads, dtype=torch.float64) for name in self.shapes(layer)}

    def maps(self, m, scores):
        if self.pre:
            scores = over_heads(self.own(m)["p"], scores)
        maps = causal_softmax(scores)
        return over_heads(self.own(m)["w"], maps) if self.post else maps


def over_heads(matrix: Tensor, tables: Tensor) -> Tensor:
    """Σ_g matrix[h, g] tables_g."""
    count = tables.shape[1]
    return torch.stack([sum(matrix[h, g] * tables[:, g] for g in range(count)) for h in range(count)], dim=1)


class Differential(Model):
    """Pairs (2i, 2i+1): A_i = softmax(S_2i) − λ softmax(S_2i+1); both heads of the pair attend with A_i to their values.

    λ = exp(λ_q1·λ_k1) − exp(λ_q2·λ_k2) + λ0, λ0 = .8 − .6 exp(−.3 (m − 1)); then (1 − λ0) · RMSNorm over the pair's 2d
    outputs, gain shared by pairs, ε 1e-5. `norm=False` leaves out norm and factor. With fewer key heads than heads,
    `values="own"` gives head h the values of its own key head, as attention has it; `values="pair"` gives pair i the two value
    heads of the pair of key heads it belongs to, as the authors' code does. H and Hkv must be even.
    """

    settings = {"norm": True, "values": "own"}

    def shapes(self, layer):
        if layer.num_heads % 2 or layer.num_kv_heads % 2:
            raise ValueError("differential attention pairs heads: their numbers must be even")
        names = ["lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"]
        gain = {"gain": (2 * layer.head_dim,)} if self.norm else {}
        return dict.fromkeys(names, (layer.head_dim,)) | gain

    def start(self, layer):
        gain = full(1.0, 2 * layer.head_dim)
        return {name: gain if name == "gain" else Normal(0.1) for name in self.shapes(layer)}

    @staticmethod
    def lambda_0(m: int) -> float:
        return 0.8 - 0.6 * math.exp(-0.3 * (m - 1))

    def value_heads(self, i: int) -> tuple[int, int]:
        if self.values == "own":
            return self.key_head(2 * i), self.key_head(2 * i + 1)
        pair = i * self.weights.num_kv_heads // self.weights.num_heads
        return 2 * pair, 2 * pair + 1

    def attended(self, m, q, k, v, u):
        own, lambda_0 = self.own(m), self.lambda_0(m)
        first, second = own["lambda_q1"] @ own["lambda_k1"], own["lambda_q2"] @ own["lambda_k2"]
        weight = torch.exp(first) - torch.exp(second) + lambda_0
        maps = causal_softmax(self.scores(m, q, k, u))
        out = []
        for i in range(len(q) // 2):
            joint = maps[:, 2 * i] - weight * maps[:, 2 * i + 1]
            left, right = self.value_heads(i)
            wide = torch.cat([joint @ v[left], joint @ v[right]], dim=-1)
            if self.norm:
                wide = (1 - lambda_0) * rms_norm(wide, 1e-5, own["gain"])
            out += wide.chunk(2, dim=-1)
        return out


class Fox(Model):
    """S_ij += Σ_{l=j+1..i} log f_l, f = σ(x̃ W_f + b_f) per query head."""

    def shapes(self, layer):
        return {"w_f": (layer.width, layer.num_heads), "b_f": (layer.num_heads,)}

    def start(self, layer):
        return {"w_f": Normal(0.02), "b_f": zeros(layer.num_heads)}

    def scores(self, m, q, k, u):
        scores = super().scores(m, q, k, u)
        log_f = torch.nn.functional.logsigmoid(u @ self.own(m)["w_f"] + self.own(m)["b_f"])  # (B, T, H)
        length = u.shape[1]
        rows = []
        for i in range(length):
            columns = [log_f[:, j + 1 : i + 1].sum(dim=1) for j in range(length)]  # empty for j ≥ i; masked later
            rows.append(torch.stack(columns, dim=-1))  # (B, H, T)
        return scores + torch.stack(rows, dim=2)


def alibi_slopes(count: int) -> list[float]:
    """2^{−8h/H}; else those of the next lower power of two, then every second one of the doubled power."""
    power = 2 ** int(math.log2(count))
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    doubled = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1)]
    return slopes + doubled[0::2][: count - power]


class Alibi(Model):
    """S_ij += −m_h (i − j)."""

    def scores(self, m, q, k, u):
        position = torch.arange(u.shape[1], dtype=u.dtype)
        distance = position[:, None] - position[None, :]
        slopes = torch.tensor(alibi_slopes(len(q)), dtype=u.dtype)
        return super().scores(m, q, k, u) - slopes[:, None, None] * distance


class Sink(Model):
    """A_ij = e^{S_ij} / (e^{z_h} + Σ_j e^{S_ij}); `learned=False`: z = 0 (softmax_one)."""

    settings = {"learned": True}

    def shapes(self, layer):
        return {"z": (layer.num_heads,)} if self.learned else {}

    def start(self, layer):
        return {"z": zeros(layer.num_heads)} if self.learned else {}

    def maps(self, m, scores):
        z = self.own(m)["z"] if self.learned else zeros(scores.shape[1])
        seen = torch.exp(scores) * past(scores.shape[-1])
        return seen / (torch.exp(z)[:, None, None] + seen.sum(dim=-1, keepdim=True))


class Ssmax(Model):
    """S_i ← s_h log(n_i) S_i, n_i = i + 1 keys seen (i from 0). s starts at 1 / mean of log n over n = 1 .. max_length."""

    settings = {"value": None}

    def shapes(self, layer):
        return {"s": (layer.num_heads,)}

    def start(self, layer):
        mean = sum(math.log(n) for n in range(1, layer.max_length + 1)) / layer.max_length
        by_length = 1 / mean if mean else 1.0  # of one token any scale will do
        return {"s": full(by_length if self.value is None else self.value, layer.num_heads)}

    def scores(self, m, q, k, u):
        log_n = torch.log(torch.arange(1, u.shape[1] + 1, dtype=u.dtype))
        return self.own(m)["s"][:, None, None] * log_n[:, None] * super().scores(m, q, k, u)


class CosineAttention(Model):
    """S = τ_h q̂ k̂ᵀ with unit Euclidean norms, after positions; τ = exp(log_tau), at most 100.

    `norm=False`: S = τ_h q kᵀ / √d, the plain logits with a temperature; its log_tau starts at 0.
    """

    settings = {"norm": True, "value": 10.0, "cap": 100.0}

    def shapes(self, layer):
        return {"log_tau": (layer.num_heads,)}

    def start(self, layer):
        return {"log_tau": full(math.log(self.value) if self.norm else 0.0, layer.num_heads)}

    def scores(self, m, q, k, u):
        tau = torch.exp(self.own(m)["log_tau"].clamp(max=math.log(self.cap)))[:, None, None]
        if not self.norm:
            return tau * super().scores(m, q, k, u)
        q, k = [euclidean(head) for head in q], [euclidean(head) for head in k]
        return tau * torch.stack([q[h] @ k[self.key_head(h)].mT for h in range(len(q))], dim=1)


def euclidean(x: Tensor) -> Tensor:
    """x / ‖x‖₂; a zero row stays zero."""
    return x / torch.sqrt((x * x).sum(dim=-1, keepdim=True)).clamp(min=1e-12)


class SigmoidAttention(Model):
    """A = σ(S + b) for keys seen, else 0; b = −ln(max_length), a constant. `bias` sets another."""

    settings = {"bias": None}

    def maps(self, m, scores):
        bias = -math.log(self.sizes[m - 1].max_length) if self.bias is None else self.bias
        return torch.sigmoid(scores + bias) * past(scores.shape[-1])


class SelectiveAttention(Model):
    """G_ij = ReLU(S_ij of head 0) for 0 < j < i, else 0; F_ij = Σ_{l<i} G_lj; S ← S − F in all heads, head 0 too."""

    def scores(self, m, q, k, u):
        scores = super().scores(m, q, k, u)
        length = u.shape[1]
        allowed = torch.zeros(length, length, dtype=torch.bool)
        for i in range(length):
            allowed[i, 1:i] = True
        marks = torch.where(allowed, torch.relu(scores[:, 0]), torch.zeros_like(scores[:, 0]))
        sums = [marks[:, :i].sum(dim=1) for i in range(length)]
        return scores - torch.stack(sums, dim=1)[:, None]


class MultiTokenAttention(Model):
    """Z = H1 Conv_θ1(Mask_0 S), A = softmax(Mask Z), A' = H2 Mask_0 Conv_θ2(Mask_0 A), O ← g ⊙ RMSNorm_d(A' V), O ← O σ(O·w + b).

    θ[h, r, c] weighs row i − (c_q − 1) + r and key j − (c_k − 1)/2 + c; what lies outside is 0. The convolutions stand in
    the layers whose index from 0 is `conv_first`, `conv_first` + `conv_every` …. H2 mixes within groups of `head_group` heads.
    The norm has the host's ε; the gate is one number per head and token.
    """

    settings = {
        **{"rows": 6, "keys": 11, "head_group": 16, "conv_first": 2, "conv_every": 4},
        **{"heads": True, "norm": True, "gate": True},
    }

    def convolves(self, index: int) -> bool:
        return index >= self.conv_first and (index - self.conv_first) % self.conv_every == 0

    def shapes(self, layer):
        if self.keys % 2 == 0:
            raise ValueError("the key window has a middle: its width must be odd")
        count, shapes = layer.num_heads, {}
        if self.convolves(layer.index):
            shapes |= {"theta_1": (count, self.rows, self.keys), "theta_2": (count, self.rows, self.keys)}
        if self.heads:
            shapes |= {"h_1": (count, count), "h_2": (count, count)}
        if self.norm:
            shapes |= {"g": (layer.head_dim,)}
        if self.gate:
            shapes |= {"w": (layer.head_dim,), "b": ()}
        return shapes

    def start(self, layer):
        kernel = zeros(layer.num_heads, self.rows, self.keys)
        kernel[:, -1, self.keys // 2] = 1
        eye = torch.eye(layer.num_heads, dtype=torch.float64)
        std = layer.width**-0.5
        values = {"theta_1": kernel, "theta_2": kernel, "h_1": eye, "h_2": eye, "g": full(1.0, layer.head_dim)}
        values |= {"w": Normal(std, cut=3 * std), "b": symmetric(layer.head_dim**-0.5)}
        return {name: values[name] for name in self.shapes(layer)}

    def convolved(self, theta: Tensor, tables: Tensor) -> Tensor:
        """Of tables (B, H, T, T) whose future is 0."""
        length, side = tables.shape[-1], self.keys // 2
        padded = torch.nn.functional.pad(tables, (side, side, self.rows - 1, 0))
        total = torch.zeros_like(tables)
        for r in range(self.rows):
            for c in range(self.keys):
                total = total + theta[:, r, c, None, None] * padded[:, :, r : r + length, c : c + length]
        return total

    def maps(self, m, scores):
        own, seen = self.own(m), past(scores.shape[-1])
        if self.convolves(m - 1):
            scores = self.convolved(own["theta_1"], scores * seen)
        if self.heads:
            scores = over_heads(own["h_1"], scores)
        maps = causal_softmax(scores)
        if self.convolves(m - 1):
            maps = self.convolved(own["theta_2"], maps * seen) * seen
        if self.heads:
            group = torch.arange(maps.shape[1]) // self.head_group
            maps = over_heads(own["h_2"] * (group[:, None] == group[None, :]), maps)
        return maps

    def attended(self, m, q, k, v, u):
        out = super().attended(m, q, k, v, u)
        if self.norm:
            out = [rms_norm(head, self.eps, self.own(m)["g"]) for head in out]
        if self.gate:
            gates = [torch.sigmoid(head @ self.own(m)["w"] + self.own(m)["b"]) for head in out]
            out = [head * gate[:, :, None] for head, gate in zip(out, gates, strict=True)]
        return out
