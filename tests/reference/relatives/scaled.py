"""Weights on the branch, on the skip, or from it: ReZero, LayerScale, Highway, LAuReL, x0_lambda, U-net skips, backout."""

import math

import torch
from torch import Tensor

from .host import SITES, Model, is_last
from .starts import full, zeros


class Rezero(Model):
    """y = x + α a, x' = y + α f, without norms but the final one.

    Parallel: x' = x + α a + α f. `prenorm=True` is pre-norm ReZero; `shared=False` has one α per site, in one tensor (2,).
    """

    settings = {"shared": True, "prenorm": False}

    def shapes(self, layer):
        return {"alpha": () if self.shared else (2,)}

    def start(self, layer):
        return {"alpha": zeros(*self.shapes(layer)["alpha"])}

    def block(self, m: int, x: Tensor) -> Tensor:
        alpha = self.own(m)["alpha"]
        of_attention, of_ffn = (alpha, alpha) if self.shared else (alpha[0], alpha[1])
        y = x + of_attention * self.attention(m, x)
        return y + of_ffn * self.ffn(m, x if self.parallel else y)


class LayerScale(Model):
    """y = x + γ_a ⊙ a, x' = y + γ_f ⊙ f. Parallel: x' = x + γ_a ⊙ a + γ_f ⊙ f."""

    settings = {"epsilon": None}  # None: by depth, as the paper has it

    def shapes(self, layer):
        return {f"gamma_{site}": (layer.width,) for site in SITES}

    def start(self, layer):
        by_depth = 0.1 if layer.num_layers <= 18 else 1e-5 if layer.num_layers <= 24 else 1e-6
        value = by_depth if self.epsilon is None else self.epsilon
        return {f"gamma_{site}": full(value, layer.width) for site in SITES}

    def block(self, m: int, x: Tensor) -> Tensor:
        y = x + self.own(m)["gamma_attention"] * self.attention(m, x)
        return y + self.own(m)["gamma_ffn"] * self.ffn(m, x if self.parallel else y)


class Highway(Model):
    """x' = T ⊙ F(x) + (1 − T) ⊙ x, T = σ(x̂ W + b), x̂ = x / rms(x).

    Parallel: both gates read the block's input, and the carry is applied once, at the attention site:
    x' = T_a ⊙ a + (1 − T_a) ⊙ x + T_f ⊙ f. `coupled=False`: x + T ⊙ F(x). `scalar=True`: W is D×1 and b has one entry.
    """

    settings = {"coupled": True, "scalar": False, "bias": -2.0}

    def shapes(self, layer):
        outputs = 1 if self.scalar else layer.width
        return {f"w_{site}": (layer.width, outputs) for site in SITES} | {f"b_{site}": (outputs,) for site in SITES}

    def start(self, layer):
        shapes = self.shapes(layer)
        return {name: full(self.bias if name[0] == "b" else 0.0, *shape) for name, shape in shapes.items()}

    def gate(self, m: int, site: str, x: Tensor) -> Tensor:
        return torch.sigmoid(self.unit(x) @ self.own(m)[f"w_{site}"] + self.own(m)[f"b_{site}"])

    def block(self, m: int, x: Tensor) -> Tensor:
        gate = self.gate(m, "attention", x)
        carry = 1 - gate if self.coupled else 1
        y = gate * self.attention(m, x) + carry * x
        if self.parallel:
            return y + self.gate(m, "ffn", x) * self.ffn(m, x)
        gate = self.gate(m, "ffn", y)
        carry = 1 - gate if self.coupled else 1
        return gate * self.ffn(m, y) + carry * y


class LaurelRw(Model):
    """x' = α F(x) + β x, (α, β) = 2 softmax(w), at both sites.

    Parallel: the skip is weighted once, by the attention site's β: x' = β_a x + α_a a + α_f f; β_f then has no effect.
    """

    def shapes(self, layer):
        return {f"w_{site}": (2,) for site in SITES}

    def start(self, layer):
        return {f"w_{site}": zeros(2) for site in SITES}

    def block(self, m: int, x: Tensor) -> Tensor:
        alpha, beta = 2 * torch.softmax(self.own(m)["w_attention"], dim=0)
        y = alpha * self.attention(m, x) + beta * x
        alpha, beta = 2 * torch.softmax(self.own(m)["w_ffn"], dim=0)
        if self.parallel:
            return y + alpha * self.ffn(m, x)
        return alpha * self.ffn(m, y) + beta * y


def laurel_p(width: int, rank: int) -> Tensor:
    """1/√(rD) where i mod r = j, else 0."""
    p = zeros(width, rank)
    for i in range(width):
        p[i, i % rank] = 1 / math.sqrt(rank * width)
    return p


class LaurelLr(Model):
    """x' = F(x) + x + x P U, at both sites.

    Parallel: the x of both sites is the block's input: x' = x + a + f + x P_a U_a + x P_f U_f.
    """

    settings = {"rank": 32}

    def shapes(self, layer):
        low = {f"p_{site}": (layer.width, self.rank) for site in SITES}
        return low | {f"u_{site}": (self.rank, layer.width) for site in SITES}

    def start(self, layer):
        low = {f"p_{site}": laurel_p(layer.width, self.rank) for site in SITES}
        return low | {f"u_{site}": zeros(self.rank, layer.width) for site in SITES}

    def low_rank(self, m: int, site: str, x: Tensor) -> Tensor:
        return x @ self.own(m)[f"p_{site}"] @ self.own(m)[f"u_{site}"]

    def block(self, m: int, x: Tensor) -> Tensor:
        y = self.attention(m, x) + x + self.low_rank(m, "attention", x)
        here = x if self.parallel else y
        return self.ffn(m, here) + y + self.low_rank(m, "ffn", here)


class LaurelPa(LaurelLr):
    """x' = F(x) + x + Σ_{j<κ} γ_j h(x_{m−j}), at both sites; h has low rank, or is the identity (`low_rank_map=False`).

    j = 0 is what the site itself reads (x_m; at the FFN y_m, parallel: x_m), j ≥ 1 what layer m − j read. The sum stops at
    x_1; γ always has κ entries, the later ones of the first layers have no effect.
    """

    settings = {"rank": 32, "kappa": 3, "low_rank_map": True}

    def shapes(self, layer):
        maps = super().shapes(layer) if self.low_rank_map else {}
        return maps | {f"gamma_{site}": (self.kappa,) for site in SITES}

    def start(self, layer):
        maps = super().start(layer) if self.low_rank_map else {}
        return maps | {f"gamma_{site}": full(1.0 if self.low_rank_map else 0.0, self.kappa) for site in SITES}

    def earlier(self, m: int, site: str, here: Tensor, inputs: list[Tensor]) -> Tensor:
        total = torch.zeros_like(here)
        for j in range(min(self.kappa, m)):
            source = here if j == 0 else inputs[m - 1 - j]
            image = self.low_rank(m, site, source) if self.low_rank_map else source
            total = total + self.own(m)[f"gamma_{site}"][j] * image
        return total

    def stack(self, x: Tensor) -> Tensor:
        inputs = []  # x_1 .. x_m
        for m in self.numbers():
            inputs.append(x)
            y = self.attention(m, x) + x + self.earlier(m, "attention", x, inputs)
            here = x if self.parallel else y
            x = self.ffn(m, here) + y + self.earlier(m, "ffn", here, inputs)
        return x


class X0Lambda(Model):
    """x_m ← λ x_m + μ x̂_1 before the block (both sublayers and the skip see it); x̂_1 = x_1 / rms(x_1), x_1 itself is not normed.

    `lambdas`, `mus`: the values at the first and at the last layer, linear between; one layer has the first.
    """

    settings = {"lambdas": (1.0, 1.0), "mus": (0.0, 0.0)}

    def shapes(self, layer):
        return {"lambda": (), "mu": ()}

    def start(self, layer):
        share = layer.index / (layer.num_layers - 1) if layer.num_layers > 1 else 0.0
        values = {"lambda": self.lambdas, "mu": self.mus}
        return {name: full(first + share * (last - first)) for name, (first, last) in values.items()}

    def stack(self, x: Tensor) -> Tensor:
        unit = self.unit(x)
        for m in self.numbers():
            x = self.block(m, self.own(m)["lambda"] * x + self.own(m)["mu"] * unit)
        return x


class UnetSkips(Model):
    """Before layer L − ⌊L/2⌋ + i (from 0; i = 0 …): x ← x + w h_{⌊L/2⌋−1−i}, h_j the output of layer j (from 0).

    With an odd depth the middle layer gets none. `sigmoid=True`: σ(w), w from −1.5.
    """

    settings = {"sigmoid": False}

    def source(self, index: int, depth: int) -> int | None:
        """The j of the layer `index` (from 0), or None."""
        i = index - (depth - depth // 2)
        return None if i < 0 else depth // 2 - 1 - i

    def shapes(self, layer):
        return {} if self.source(layer.index, layer.num_layers) is None else {"w": ()}

    def start(self, layer):
        return {name: full(-1.5 if self.sigmoid else 1.0) for name in self.shapes(layer)}

    def stack(self, x: Tensor) -> Tensor:
        outputs = []
        for m in self.numbers():
            j = self.source(m - 1, self.depth)
            if j is not None:
                w = self.own(m)["w"]
                x = x + (torch.sigmoid(w) if self.sigmoid else w) * outputs[j]
            x = self.block(m, x)
            outputs.append(x)
        return x


class Backout(Model):
    """x ← x − λ h_c before the final norm; h_c is the output of layer c, from 0; λ is in the last layer's parameters.

    `layer=None`: c = ⌊2L/3⌋, which is 8 of 12 as published, but not the last layer (its output is x) if there is another.
    """

    settings = {"layer": None, "value": 0.5}

    def shapes(self, layer):
        return {"lambda": ()} if is_last(layer) else {}

    def start(self, layer):
        return {name: full(self.value) for name in self.shapes(layer)}

    def stack(self, x: Tensor) -> Tensor:
        outputs = []
        for m in self.numbers():
            x = self.block(m, x)
            outputs.append(x)
        c = max(0, min(2 * self.depth // 3, self.depth - 2)) if self.layer is None else self.layer
        return x - self.own(self.depth)["lambda"] * outputs[c]


class TwoHop(Model):
    """x' = x + FFN(N2(x + a)). Parallel: the FFN reads x, so attention has no effect."""

    def block(self, m: int, x: Tensor) -> Tensor:
        return x + self.ffn(m, x if self.parallel else x + self.attention(m, x))
