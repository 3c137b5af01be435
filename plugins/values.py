"""Values and gates: values of earlier layers, a gate on what the heads answer, and a second query for each head.

With x̃ the normed input of attention, Q_m, K_m, V_m what layer m projects from it and O_h what head h answers:

    value_residual     V_m ← λ1 V_1 + λ2 V_m                                      (arXiv 2410.17897)
    lime               [K; V]^h_m ← Σ_{l≤m} Σ_g R_m[h, (l, g)] [K; V]^g_l         (arXiv 2502.09245)
    gated_attention    O_h ← σ(x̃ W_g)_h ⊙ O_h                                     (arXiv 2505.06708)
    differential_v2    O_h ← O_h − σ(x̃ W_λ)_h O′_h, O′ that of a second query
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.extension import AttentionInputs, HeadMixing, Layer, hint, preset
from zoo.history import History, Projected
from zoo.state import State

ZOO_API = (1, 2)


def random_matrix(layer: Layer, columns: int) -> nn.Parameter:
    """D × columns, from the deviation of the host's projections."""
    return nn.Parameter(torch.randn(layer.width, columns) * layer.init_std)


class ValueResidual(HeadMixing):
    """V_m ← λ1 V_1 + λ2 V_m from layer `first_layer` on: what is cached is the mixture."""

    reads = frozenset({"projected"})

    def __init__(self, layer: Layer, learned: bool, first: float = 0.5, own: float = 0.5, first_layer: int = 2) -> None:
        super().__init__()
        if not 2 <= first_layer <= max(2, layer.num_layers):
            raise ValueError(
                f"first_layer = {first_layer}: take a layer from 2 to {max(2, layer.num_layers)},"
                " for the first has no values below it"
            )
        self.acts = layer.number >= first_layer
        given = torch.tensor([first, own])
        self.lambdas: Tensor | tuple[float, float]
        self.lambdas = hint(nn.Parameter(given), decay=False) if learned and self.acts else (first, own)
        if (first, own) == (0.0, 1.0):
            self.starts_as = "baseline"

    def project(self, heads: Projected, normed: AttentionInputs, history: History, state: State | None) -> Projected:
        if not self.acts:
            return heads
        first, own = self.lambdas
        return heads._replace(v=first * history.projected[0].v + own * heads.v)

    def probes(self) -> dict[str, Tensor]:
        return {"lambdas": self.lambdas} if isinstance(self.lambdas, Tensor) else {}


class Lime(HeadMixing):
    """Keys and values are mixtures over all heads of all layers so far, the same for both: R_m, Hkv × m·Hkv."""

    reads = frozenset({"projected"})

    def __init__(self, layer: Layer, zero: bool = False) -> None:
        super().__init__()
        self.r: nn.Parameter | None = None
        if layer.index:
            count = layer.num_kv_heads
            bound = 0.0 if zero else (3 / (layer.number * count)) ** 0.5
            earlier = torch.empty(count, layer.index * count).uniform_(-bound, bound)
            self.r = hint(nn.Parameter(torch.cat([earlier, torch.eye(count)], dim=1)), decay=False, lr_factor=10.0)
        if zero:
            self.starts_as = "baseline"

    def project(self, heads: Projected, normed: AttentionInputs, history: History, state: State | None) -> Projected:
        if self.r is None:
            return heads
        layers = (*history.projected, heads)
        keys = torch.cat([layer.k for layer in layers], dim=2)  # (B, T, m·Hkv, d)
        values = torch.cat([layer.v for layer in layers], dim=2)
        return heads._replace(k=self.r @ keys, v=self.r @ values)

    def probes(self) -> dict[str, Tensor]:
        return {} if self.r is None else {"of_layer": self.r.unflatten(1, (-1, self.r.size(0))).abs().mean(dim=(0, 2))}


class GatedAttention(HeadMixing):
    """O_h ← σ(x̃ W_g)_h ⊙ O_h: a number per head and token, or one for each channel of the head."""

    def __init__(self, layer: Layer, elementwise: bool, doubled: bool = False) -> None:
        super().__init__()
        columns = layer.num_heads * (layer.head_dim if elementwise else 1)
        self.heads = layer.num_heads
        self.scale = 2.0 if doubled else 1.0
        self.w_g = nn.Parameter(torch.zeros(layer.width, columns)) if doubled else random_matrix(layer, columns)
        if doubled:
            self.starts_as = "baseline"

    def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
        gate = torch.sigmoid(normed.query @ self.w_g)  # (B, T, H) or (B, T, H·d)
        self.watch("gate", gate)
        gate = gate.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, T, 1) or (B, H, T, d)
        return heads * (gate if self.scale == 1.0 else self.scale * gate)


class DifferentialV2(HeadMixing):
    """O_h = A_{2h} V − σ(x̃ W_λ)_h A_{2h+1} V: a second query for each head, on the same keys and values."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.q2 = random_matrix(layer, layer.num_heads * layer.head_dim)
        self.w_lambda = random_matrix(layer, layer.num_heads)

    def project(self, heads: Projected, normed: AttentionInputs, history: History, state: State | None) -> Projected:
        second = (normed.query @ self.q2).view_as(heads.q)
        return heads._replace(q=torch.stack([heads.q, second], dim=3).flatten(2, 3))  # (B, T, 2H, d)

    def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
        first, second = heads.unflatten(1, (-1, 2)).unbind(dim=2)
        share = torch.sigmoid(normed.query @ self.w_lambda)  # (B, T, H)
        self.watch("lambda", share)
        return first - share.mT.unsqueeze(-1) * second


value_residual = preset(ValueResidual, "V_m ← λ1 V_1 + λ2 V_m, both ½", learned=False)
value_residual_learned = preset(ValueResidual, "V_m ← λ1 V_1 + λ2 V_m, both learned from ½", learned=True)
lime = preset(Lime)
gated_attention = preset(GatedAttention, "O_h ← σ(x̃ W_g)_h O_h: a gate per head", elementwise=False)
gated_attention_elementwise = preset(
    GatedAttention, "O_h ← σ(x̃ W_g)_h ⊙ O_h: a gate for each channel of a head", elementwise=True
)
differential_v2 = preset(DifferentialV2)
