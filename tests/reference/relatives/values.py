"""Values and heads: value_residual, lime, gated_attention, differential_v2."""

import torch

from ..blocks import causal_softmax, heads, rope
from .host import Model
from .starts import Columns, Normal, full, symmetric, zeros


class ValueResidual(Model):
    """V_m ← λ1 V_1 + λ2 V_m for m ≥ 2, V_1 layer 1's own values.

    `learned`: λ1 and λ2 are parameters of each layer it acts in; else both are settings. `layers`: the numbers it acts in.
    """

    settings = {"learned": False, "lambda_1": 0.5, "lambda_2": 0.5, "layers": None}

    def acts(self, m: int) -> bool:
        return m >= 2 and (self.layers is None or m in self.layers)

    def shapes(self, layer):
        return {"lambda_1": (), "lambda_2": ()} if self.learned and self.acts(layer.number) else {}

    def start(self, layer):
        values = {"lambda_1": full(self.lambda_1), "lambda_2": full(self.lambda_2)}
        return values if self.shapes(layer) else {}

    def projected(self, m, q, k, v, u):
        if m == 1:
            self.memory["v"] = v
        if not self.acts(m):
            return q, k, v
        own = self.own(m) if self.learned else {"lambda_1": self.lambda_1, "lambda_2": self.lambda_2}
        return q, k, own["lambda_1"] * self.memory["v"] + own["lambda_2"] * v


class Lime(Model):
    """K̃^h_m = Σ_{l≤m} Σ_g R[h, (l, g)] K^g_l, Ṽ the same with the same R; before positions, of every layer's own K, V.

    Column (l, g) is (l − 1)·Hkv + g. Layer 1 has none. `zero=True`: the earlier layers' weights start at 0 (baseline).
    """

    settings = {"zero": False}

    def shapes(self, layer):
        heads = layer.num_kv_heads
        return {} if layer.number == 1 else {"r": (heads, layer.number * heads)}

    def start(self, layer):
        if layer.number == 1:
            return {}
        count = layer.num_kv_heads
        bound = (3 / (layer.number * count)) ** 0.5
        earlier = zeros(count, layer.index * count) if self.zero else symmetric(bound)
        return {"r": Columns((layer.index * count, earlier), (count, torch.eye(count, dtype=torch.float64)))}

    def projected(self, m, q, k, v, u):
        count = self.weights.num_kv_heads
        keys, values = self.memory.setdefault("k", []), self.memory.setdefault("v", [])
        keys += heads(k, count)
        values += heads(v, count)
        if m == 1:
            return q, k, v
        r = self.own(m)["r"]
        mixed_k = [sum(r[h, n] * keys[n] for n in range(m * count)) for h in range(count)]
        mixed_v = [sum(r[h, n] * values[n] for n in range(m * count)) for h in range(count)]
        return q, torch.cat(mixed_k, dim=-1), torch.cat(mixed_v, dim=-1)


class GatedAttention(Model):
    """O_h ← O_h ⊙ σ(x̃ W_g)_h before W_O; headwise W_g D×H, elementwise D×(H·d). `doubled`: 2σ, W_g from 0 (baseline)."""

    settings = {"elementwise": False, "doubled": False}

    def shapes(self, layer):
        return {"w_g": (layer.width, layer.num_heads * (layer.head_dim if self.elementwise else 1))}

    def start(self, layer):
        return {"w_g": zeros(*self.shapes(layer)["w_g"]) if self.doubled else Normal(layer.init_std)}

    def attended(self, m, q, k, v, u):
        gates = torch.sigmoid(u @ self.own(m)["w_g"]) * (2 if self.doubled else 1)
        out = super().attended(m, q, k, v, u)
        return [head * gate for head, gate in zip(out, heads(gates, len(out)), strict=True)]


class DifferentialV2(Model):
    """O_h = A_{2h} V − σ(x̃ W_λ)_h A_{2h+1} V: A_{2h} of the host's query h, A_{2h+1} of x̃ q2's; both on query h's key head."""

    def shapes(self, layer):
        return {"q2": (layer.width, layer.num_heads * layer.head_dim), "w_lambda": (layer.width, layer.num_heads)}

    def start(self, layer):
        return {"q2": Normal(layer.init_std), "w_lambda": Normal(layer.init_std)}

    def attended(self, m, q, k, v, u):
        second = [rope(head, self.weights.rope_theta) for head in heads(u @ self.own(m)["q2"], len(q))]
        share = torch.sigmoid(u @ self.own(m)["w_lambda"])  # (B, T, H)
        first_maps = causal_softmax(self.scores(m, q, k, u))
        second_maps = causal_softmax(self.scores(m, second, k, u))
        out = []
        for h in range(len(q)):
            value = v[self.key_head(h)]
            out.append(first_maps[:, h] @ value - share[:, :, h, None] * (second_maps[:, h] @ value))
        return out
