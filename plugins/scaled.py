"""Scaled branches: weights on what a sublayer writes, on the skip, or on the embedding beside it.

    rezero        y = x + α a,            x' = y + α f                   one α per layer, from 0
    layer_scale   y = x + γ_a ⊙ a,        x' = y + γ_f ⊙ f               γ ∈ R^D from a small ε
    x0_lambda     x ← λ x + μ x̂_1        before the block
    highway       x' = T ⊙ F(x) + (1 − T) ⊙ x,   T = σ(x̂ W + b)

x̂ is x / rms(x). In the parallel host the skip is weighted once, at the attention site.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from zoo_plugins.rebased import Rebased

from zoo.errors import ZooError
from zoo.extension import ATTENTION, Layer, Residual, Site, hint, preset
from zoo.functional import normed_product, rms_norm
from zoo.history import History


class ReZero(Residual):
    """x ← x + α F(x); without norms before the sublayers unless `prenorm`; `shared`: one α for both sublayers."""

    def __init__(self, layer: Layer, start: float = 0.0, shared: bool = True, prenorm: bool = False) -> None:
        super().__init__()
        self.prenorm = prenorm
        self.alpha = hint(nn.Parameter(torch.full((1 if shared else 2,), start)))

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        return torch.addcmul(stream, branch, self.alpha[0 if site == ATTENTION else -1])

    def probes(self) -> dict[str, Tensor]:
        return {"alpha": self.alpha}


rezero = preset(ReZero, "y = x + α a, x' = y + α f, α from 0")


class LayerScale(Residual):
    """x ← x + γ ⊙ F(x), γ ∈ R^D from `epsilon`; 0 stands for the paper's choice by depth."""

    def __init__(self, layer: Layer, epsilon: float = 0.0) -> None:
        super().__init__()
        if not epsilon >= 0:
            raise ZooError(f"epsilon = {epsilon} must be above 0, or 0 for the paper's choice by depth")
        by_depth = 0.1 if layer.num_layers <= 18 else 1e-5 if layer.num_layers <= 24 else 1e-6
        value = epsilon or by_depth
        self.gamma_attention = hint(nn.Parameter(torch.full((layer.width,), value)))
        self.gamma_ffn = hint(nn.Parameter(torch.full((layer.width,), value)))

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        return torch.addcmul(stream, branch, self.gamma_attention if site == ATTENTION else self.gamma_ffn)

    def probes(self) -> dict[str, Tensor]:
        return {"gamma_attention": self.gamma_attention, "gamma_ffn": self.gamma_ffn}


layer_scale = preset(LayerScale, "y = x + γ_a ⊙ a, x' = y + γ_f ⊙ f, γ from 0.1 in up to 18 layers")


class X0Lambda(Rebased):
    """x_m ← λ_m x_m + μ_m x̂_1 before the block; both start linear in depth, from `…_first` to `…_last`."""

    def __init__(
        self,
        layer: Layer,
        lambda_first: float = 1.0,
        lambda_last: float = 1.0,
        mu_first: float = 0.0,
        mu_last: float = 0.0,
        lambda_lr_factor: float = 0.01,
        mu_lr_factor: float = 1.0,
    ) -> None:
        super().__init__(layer)
        self.eps = layer.norm_eps
        share = layer.index / max(1, layer.num_layers - 1)

        for name, factor in (("lambda_lr_factor", lambda_lr_factor), ("mu_lr_factor", mu_lr_factor)):
            if not factor >= 0:
                raise ZooError(f"{name} = {factor} must be a multiple of the learning rate, not less than 0")

        def weight(first: float, last: float, lr_factor: float) -> nn.Parameter:
            return hint(nn.Parameter(torch.tensor(first + share * (last - first))), lr_factor=lr_factor)

        self.skip = weight(lambda_first, lambda_last, lambda_lr_factor)
        self.mu = weight(mu_first, mu_last, mu_lr_factor)

    def base(self, stream: Tensor, history: History) -> Tensor:
        return torch.addcmul(stream * self.skip, rms_norm(history.embedding, None, self.eps), self.mu)

    def probes(self) -> dict[str, Tensor]:
        return {"lambda": self.skip, "mu": self.mu}


x0_lambda = preset(
    X0Lambda, "x ← λ x + μ x̂_1 before the block, λ from 1, μ from 0", starts_as="baseline",
    lambda_first=1.0, lambda_last=1.0, mu_first=0.0, mu_last=0.0,
)  # fmt: skip
x0_lambda_nanochat = preset(
    X0Lambda, "x ← λ x + μ x̂_1 before the block, λ from 1.15 … 1.05, μ from 0.2 … 0.05",
    lambda_first=1.15, lambda_last=1.05, mu_first=0.2, mu_last=0.05,
)  # fmt: skip


class Highway(Residual):
    """x' = T ⊙ F(x) + (1 − T) ⊙ x, T = σ(x̂ W + b), W from 0, b from `bias`; not `coupled`: x + T ⊙ F(x).

    `scalar`: one T per token. In the parallel host both gates read the block's input, and the carry is attention's.
    """

    def __init__(self, layer: Layer, coupled: bool = True, scalar: bool = False, bias: float = -2.0) -> None:
        super().__init__()
        self.coupled, self.parallel, self.eps = coupled, layer.parallel, layer.norm_eps
        outputs = 1 if scalar else layer.width
        self.w_attention, self.w_ffn = (
            hint(nn.Parameter(torch.zeros(layer.width, outputs)), decay=True) for _ in range(2)
        )
        self.b_attention, self.b_ffn = (hint(nn.Parameter(torch.full((outputs,), bias))) for _ in range(2))

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        w, b = (self.w_attention, self.b_attention) if site == ATTENTION else (self.w_ffn, self.b_ffn)
        seen = history.current.input if self.parallel else stream
        gate = torch.sigmoid(normed_product(seen, w, self.eps) + b)
        self.watch(f"gate_{site}", gate)
        if self.coupled and (site == ATTENTION or not self.parallel):
            return torch.lerp(stream, branch.to(stream.dtype), gate.to(stream.dtype))
        return torch.addcmul(stream, gate, branch)

    def probes(self) -> dict[str, Tensor]:
        return {"carry_attention": torch.sigmoid(-self.b_attention), "carry_ffn": torch.sigmoid(-self.b_ffn)}


highway = preset(Highway, "x' = T ⊙ F(x) + (1 − T) ⊙ x, T = σ(x̂ W + b)")


class UnetSkips(Rebased):
    """Before layer L − ⌊L/2⌋ + i (from 0): x ← x + w_i h_{⌊L/2⌋−1−i}, h_j the output of layer j; `sigmoid`: σ(w), w from −1.5."""

    def __init__(self, layer: Layer, sigmoid: bool = False) -> None:
        super().__init__(layer)
        self.sigmoid = sigmoid
        half = layer.num_layers // 2
        self.source = layer.num_layers - 1 - layer.index  # j
        if self.source < half:
            self.reads = frozenset({"stream"})
        self.w = hint(nn.Parameter(torch.tensor(-1.5 if sigmoid else 1.0))) if self.source < half else None

    def base(self, stream: Tensor, history: History) -> Tensor:
        if self.w is None:
            return stream
        return torch.addcmul(stream, history.streams[self.source + 1], self.weight(self.w))

    def weight(self, w: Tensor) -> Tensor:
        return torch.sigmoid(w) if self.sigmoid else w

    def probes(self) -> dict[str, Tensor]:
        return {} if self.w is None else {"weight": self.weight(self.w)}


unet_skips = preset(UnetSkips, "x ← x + w h before the layers of the second half, h of the mirrored layer")


class Backout(Rebased):
    """x ← x − λ h_c before the final norm; h_c is the output of layer c, from 0; −1 stands for ⌊2L/3⌋, at most L − 2."""

    def __init__(self, layer: Layer, layer_taken: int = -1, value: float = 0.5) -> None:
        super().__init__(layer)
        depth = layer.num_layers
        if not -1 <= layer_taken < depth:
            raise ZooError(
                f"layer_taken = {layer_taken} must be the index of one of {depth} layers, or -1 for two thirds"
            )
        self.taken = max(0, min(2 * depth // 3, depth - 2)) if layer_taken < 0 else layer_taken
        self.reads = frozenset({"stream"} if layer.number == depth else ())
        self.value = hint(nn.Parameter(torch.tensor(value))) if layer.number == depth else None

    def left(self, stream: Tensor, history: History) -> Tensor:
        if self.value is None:
            return stream
        return torch.addcmul(stream, (*history.streams, stream)[self.taken + 1], self.value, value=-1)

    def probes(self) -> dict[str, Tensor]:
        return {} if self.value is None else {"lambda": self.value}


backout = preset(Backout, "x ← x − λ h_c before the final norm, λ from 0.5")
