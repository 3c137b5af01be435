"""Weak recurrence: what the FFN gets is mixed with the few tokens before it.

u is the sublayer's normalised input, z what the sublayer then gets, u_{t−k} = 0 before the start. Gates written γ start at
σ(0) = ½. Decoding keeps the last n rows of u.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.extension import Layer, TemporalMixing, hint, preset
from zoo.state import State, with_past
from zoo.sums import previous, taps

Place = Literal["ffn", "attention_input", "attention", "output"]


class Mixing(TemporalMixing):
    """A temporal mixing whose site is a setting."""

    def __init__(self, site: Place) -> None:
        super().__init__()
        self.site = site


def placed(
    build: Callable[..., TemporalMixing], /, doc: str | None = None, **fixed: Any
) -> Callable[..., TemporalMixing]:
    """A preset that builds nothing below the last layer where its site is `output`, which a model has once."""
    whole = preset(build, doc, **fixed)

    @functools.wraps(whole)
    def method(layer: Layer, **settings: Any) -> TemporalMixing:
        if settings.get("site") == "output" and layer.number < layer.num_layers:
            return TemporalMixing()
        return whole(layer, **settings)

    return method


def scalar(value: float = 0.0) -> nn.Parameter:
    return hint(nn.Parameter(torch.tensor(value)))


def matrix(rows: int, columns: int, std: float | None = None) -> nn.Parameter:
    """From N(0, 1/columns), or with a given deviation."""
    return nn.Parameter(torch.randn(rows, columns) * (columns**-0.5 if std is None else std))


def bias(width: int) -> nn.Parameter:
    return hint(nn.Parameter(torch.zeros(width)))


def past_tokens(n: int) -> int:
    """The number of tokens before this one that are read: at least one."""
    if n < 1:
        raise ZooError(f"n = {n} must be at least 1: it is the number of tokens before this one that are read")
    return n


def blend(context: Tensor, u: Tensor, share: Tensor) -> Tensor:
    """share ⊙ u + (1−share) ⊙ context, in the type of u: autocast makes matrix products narrower than u."""
    return torch.lerp(context.to(u.dtype), u, share.to(u.dtype))


# -- wr_1, wr_5, wr_6, wr_6_1: scalar gates over the last tokens --------------------------------------------------------


class ScalarGates(Mixing):
    """z_t = Σ_k c_k u_{t−k}, the c_k made of scalar gates."""

    def coefficients(self) -> Tensor:
        """c_0 … c_n."""
        raise NotImplementedError

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return taps(self, u, self.coefficients(), state)

    def probes(self) -> dict[str, Tensor]:
        return {name.replace("gamma", "gate"): p.sigmoid() for name, p in self.named_parameters()}


class PreviousToken(ScalarGates):
    """wr_1: z_t = g u_t + (1−g) u_{t−1}, g = σ(γ)."""

    def __init__(self, layer: Layer, site: Place = "ffn") -> None:
        super().__init__(site)
        self.gamma = scalar()

    def coefficients(self) -> Tensor:
        g = self.gamma.sigmoid()
        return torch.stack([g, 1 - g])


class TwoTokens(ScalarGates):
    """wr_5: g1 u_t + (1−g1) g2 u_{t−1} + (1−g1)(1−g2) u_{t−2}."""

    def __init__(self, layer: Layer, site: Place = "ffn") -> None:
        super().__init__(site)
        self.gamma1, self.gamma2 = scalar(), scalar()

    def coefficients(self) -> Tensor:
        g1, g2 = self.gamma1.sigmoid(), self.gamma2.sigmoid()
        return torch.stack([g1, (1 - g1) * g2, (1 - g1) * (1 - g2)])


class NestedTwoTokens(TwoTokens):
    """wr_6: g1 u_t + (1−g1)(g2 u_{t−1} + (1−g2) u_{t−2}).

    The same function as wr_5, computed in its own order: what differs between runs of the two is rounding that grew.
    """

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        g2 = self.gamma2.sigmoid()
        return torch.lerp(taps(self, u, torch.stack([g2, 1 - g2]), state, first=1), u, self.gamma1.sigmoid())


class MeanOfTwo(ScalarGates):
    """wr_6_1: g u_t + (1−g)(u_{t−1} + u_{t−2})/2."""

    def __init__(self, layer: Layer, site: Place = "ffn") -> None:
        super().__init__(site)
        self.gamma = scalar()

    def coefficients(self) -> Tensor:
        g = self.gamma.sigmoid()
        return torch.stack([g, (1 - g) / 2, (1 - g) / 2])


# -- wr_2, wr_3, wr_4: matrices over this token and the one before ------------------------------------------------------


class PairProjection(Mixing):
    """wr_2: W[u_t; u_{t−1}] + b. wr_3 (`gated`): g u_t + (1−g)(W[u_t; u_{t−1}] + b)."""

    def __init__(self, layer: Layer, gated: bool, site: Place = "ffn") -> None:
        super().__init__(site)
        self.w = matrix(layer.width, 2 * layer.width)
        self.bias = bias(layer.width)
        self.gamma = scalar() if gated else None

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        projected = F.linear(torch.cat([u, previous(self, u, state)], dim=-1), self.w, self.bias)
        return projected if self.gamma is None else blend(projected, u, self.gamma.sigmoid())

    def probes(self) -> dict[str, Tensor]:
        return {} if self.gamma is None else {"gate": self.gamma.sigmoid()}


class GatedUnit(Mixing):
    """wr_4: R, Z = σ(W_{r,z}[u_t; u_{t−1}] + b_{r,z}); (1−Z)⊙u_{t−1} + Z⊙silu(W[R⊙u_{t−1}; u_t] + b)."""

    def __init__(self, layer: Layer, site: Place = "ffn") -> None:
        super().__init__(site)
        self.w_r, self.w_z, self.w = (matrix(layer.width, 2 * layer.width) for _ in range(3))
        self.b_r, self.b_z, self.b = (bias(layer.width) for _ in range(3))

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        before = previous(self, u, state)
        both = torch.cat([u, before], dim=-1)
        gates = F.linear(both, torch.cat([self.w_r, self.w_z]), torch.cat([self.b_r, self.b_z]))
        r, z = gates.sigmoid().chunk(2, dim=-1)
        self.watch("reset_gate", r)
        self.watch("update_gate", z)
        candidate = F.silu(F.linear(torch.cat([r * before, u], dim=-1), self.w, self.b))
        return torch.lerp(before, candidate.to(u.dtype), z.to(u.dtype))


# -- wr_3_1, wr_3_2, wr_8…: a gate for every channel between this token and a context -----------------------------------


class Gated(Mixing):
    """z_t = G⊙u_t + (1−G)⊙c_t, G = σ(W_s u_t + b_s), with a context c of the tokens before."""

    def __init__(self, layer: Layer, site: Place) -> None:
        super().__init__(site)
        self.gate_w = matrix(layer.width, layer.width, std=0.02)
        self.gate_b = bias(layer.width)

    def context(self, u: Tensor, state: State | None) -> Tensor:
        raise NotImplementedError

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        gate = F.linear(u, self.gate_w, self.gate_b).sigmoid()
        self.watch("gate", gate)
        return blend(self.context(u, state), u, gate)

    def probes(self) -> dict[str, Tensor]:
        return {"gate_at_zero": self.gate_b.sigmoid()}  # the gate of an input of zeros


class GatedPrevious(Gated):
    """wr_3_1: c_t = u_{t−1}."""

    def __init__(self, layer: Layer, site: Place = "ffn") -> None:
        super().__init__(layer, site)

    def context(self, u: Tensor, state: State | None) -> Tensor:
        return previous(self, u, state)


class GatedPreviousTwo(Gated):
    """wr_3_2: c_t = q u_{t−1} + (1−q) u_{t−2}, q = σ(γ)."""

    def __init__(self, layer: Layer, site: Place = "ffn") -> None:
        super().__init__(layer, site)
        self.gamma = scalar()

    def context(self, u: Tensor, state: State | None) -> Tensor:
        q = self.gamma.sigmoid()
        return taps(self, u, torch.stack([q, 1 - q]), state, first=1)

    def probes(self) -> dict[str, Tensor]:
        return super().probes() | {"previous_share": self.gamma.sigmoid()}


class GatedConvolution(Gated):
    """wr_8: c_t = Σ_{k=1..n} kernel_k u_{t−k} + bias, one kernel for all channels, from 1/n. wr_8_1 (`squashed`): σ(c)."""

    def __init__(self, layer: Layer, squashed: bool = False, n: int = 2, site: Place = "ffn") -> None:
        super().__init__(layer, site)
        self.kernel = hint(nn.Parameter(torch.full((past_tokens(n),), 1 / n)))
        self.bias = scalar()
        self.squashed = squashed

    def context(self, u: Tensor, state: State | None) -> Tensor:
        c = taps(self, u, self.kernel, state, first=1) + self.bias
        return c.sigmoid() if self.squashed else c

    def probes(self) -> dict[str, Tensor]:
        return super().probes() | {"kernel": self.kernel}


class GatedRandomConvolution(Gated):
    """wr_8_log, as coded: wr_8 with a fresh random kernel and bias at every forward pass; wr_8_1_log (`squashed`): σ of it.

    Void as a method: the kernel is noise and is not learned.
    """

    deterministic = False
    decodes = False

    def __init__(self, layer: Layer, squashed: bool = False, n: int = 2, site: Place = "ffn") -> None:
        super().__init__(layer, site)
        self.n = past_tokens(n)
        self.squashed = squashed

    def context(self, u: Tensor, state: State | None) -> Tensor:
        bound = self.n**-0.5
        drawn = torch.empty(self.n + 1, dtype=u.dtype, device=u.device).uniform_(-bound, bound)
        c = taps(self, u, drawn[:-1], state, first=1) + drawn[-1]
        return c.sigmoid() if self.squashed else c


class GatedMean(Gated):
    """wr_8_2: c_t = Σ_{k=1..n} softmax(w)_k u_{t−k}, w ∈ R^n from a flat start (`random`: from N(0, 1))."""

    def __init__(self, layer: Layer, n: int = 2, random: bool = False, site: Place = "ffn") -> None:
        super().__init__(layer, site)
        n = past_tokens(n)
        self.w = hint(nn.Parameter(torch.randn(n) if random else torch.zeros(n)))

    def mean(self, u: Tensor, state: State | None) -> Tensor:
        return taps(self, u, self.w.softmax(dim=0), state, first=1)

    def context(self, u: Tensor, state: State | None) -> Tensor:
        return self.mean(u, state)

    def probes(self) -> dict[str, Tensor]:
        return super().probes() | {"kernel": self.w.softmax(dim=0)}


class SkippedMean(GatedMean):
    """wr_8_2_skip: z = ρu + Rec(u), Rec = wr_8_2, ρ learned from `start`, or `fixed` there."""

    def __init__(
        self,
        layer: Layer,
        start: float = 0.0,
        fixed: bool = False,
        n: int = 2,
        random: bool = False,
        site: Place = "ffn",
    ) -> None:
        super().__init__(layer, n, random, site)
        self.rho: Tensor
        if fixed:
            self.register_buffer("rho", torch.tensor(start))
        else:
            self.rho = scalar(start)

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return torch.addcmul(super().forward(u, state), u, self.rho)

    def probes(self) -> dict[str, Tensor]:
        return super().probes() | {"rho": self.rho}


class GainedMean(GatedMean):
    """wr_8_2_gains: z = ρu + κRec(u), Rec = wr_8_2, both from 1."""

    def __init__(self, layer: Layer, n: int = 2, random: bool = False, site: Place = "ffn") -> None:
        super().__init__(layer, n, random, site)
        self.rho, self.kappa = scalar(1.0), scalar(1.0)

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return torch.addcmul(super().forward(u, state) * self.kappa, u, self.rho)

    def probes(self) -> dict[str, Tensor]:
        return super().probes() | {"rho": self.rho, "kappa": self.kappa}


class GatedSkippedMean(GatedMean):
    """wr_8_2_gate: z = σ(s) u + (1−σ(s)) Rec(u), Rec = wr_8_2."""

    def __init__(self, layer: Layer, n: int = 2, random: bool = False, site: Place = "ffn") -> None:
        super().__init__(layer, n, random, site)
        self.s = scalar()

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return blend(super().forward(u, state), u, self.s.sigmoid())

    def probes(self) -> dict[str, Tensor]:
        return super().probes() | {"skip_gate": self.s.sigmoid()}


class ProjectedMean(GatedMean):
    """wr_8_2_1 (`after`): c → Hc + b. wr_8_2_2 (`before`): the mean of Hu + b (`scaled`: over √D)."""

    def __init__(
        self,
        layer: Layer,
        where: Literal["before", "after"],
        scaled: bool = False,
        n: int = 2,
        random: bool = False,
        site: Place = "ffn",
    ) -> None:
        super().__init__(layer, n, random, site)
        self.h, self.b = matrix(layer.width, layer.width), bias(layer.width)
        self.where = where
        self.scale = layer.width**-0.5 if scaled else 1.0

    def context(self, u: Tensor, state: State | None) -> Tensor:
        if self.where == "after":
            return F.linear(self.mean(u, state), self.h, self.b)
        return self.mean(F.linear(u, self.h, self.b) * self.scale, state)


class JoinedMean(GatedMean):
    """wr_8_2_3: c → W[u; c] + b. wr_8_2_4 (`projected`): c → W[u; Hc] + b."""

    def __init__(self, layer: Layer, projected: bool, n: int = 2, random: bool = False, site: Place = "ffn") -> None:
        super().__init__(layer, n, random, site)
        self.m, self.b = matrix(layer.width, 2 * layer.width), bias(layer.width)
        self.h = matrix(layer.width, layer.width) if projected else None

    def context(self, u: Tensor, state: State | None) -> Tensor:
        c = self.mean(u, state)
        if self.h is not None:
            c = F.linear(c, self.h)
        return F.linear(torch.cat([u, c], dim=-1), self.m, self.b)


class DepthwiseMean(Gated):
    """wr_8_3: a softmax over the n taps of each channel, w ∈ R^{D×n}."""

    def __init__(self, layer: Layer, n: int = 2, site: Place = "ffn") -> None:
        super().__init__(layer, site)
        self.w = hint(nn.Parameter(torch.zeros(layer.width, past_tokens(n))))

    def context(self, u: Tensor, state: State | None) -> Tensor:
        return taps(self, u, self.w.softmax(dim=-1).T, state, first=1)

    def probes(self) -> dict[str, Tensor]:
        return super().probes() | {"kernel": self.w.softmax(dim=-1).mean(dim=0)}


class GroupedMean(Gated):
    """wr_8_3_log, as coded: g groups, one softmax over channels and taps together, w ∈ R^{D×(D/g)×n}."""

    def __init__(self, layer: Layer, groups: int = 1, n: int = 2, site: Place = "ffn") -> None:
        super().__init__(layer, site)
        if layer.width % groups:
            raise ValueError(f"groups = {groups} does not divide the width {layer.width}")
        self.w = nn.Parameter(torch.zeros(layer.width, layer.width // groups, past_tokens(n)))
        self.groups = groups

    def context(self, u: Tensor, state: State | None) -> Tensor:
        n = self.w.size(-1)
        kernel = self.w.flatten(1).softmax(dim=-1).view_as(self.w).flip(-1)  # conv1d's last tap is the newest token
        whole = with_past(state, self, u, n)[:, :-1]
        return F.conv1d(whole.transpose(1, 2), kernel, groups=self.groups).transpose(1, 2)


wr_1 = placed(PreviousToken)
wr_2 = placed(PairProjection, "z_t = W[u_t; u_{t−1}] + b", gated=False)
wr_3 = placed(PairProjection, "z_t = g u_t + (1−g)(W[u_t; u_{t−1}] + b)", gated=True)
wr_3_1 = placed(GatedPrevious)
wr_3_2 = placed(GatedPreviousTwo)
wr_4 = placed(GatedUnit)
wr_5 = placed(TwoTokens)
wr_6 = placed(NestedTwoTokens)
wr_6_1 = placed(MeanOfTwo)
wr_8 = placed(
    GatedConvolution,
    "z_t = G⊙u_t + (1−G)⊙c_t, c a learned causal convolution over the n previous tokens",
    squashed=False,
)
wr_8_log = placed(GatedRandomConvolution, "wr_8 as coded: a fresh random kernel at every forward pass", squashed=False)
wr_8_1 = placed(GatedConvolution, "wr_8 with σ(c)", squashed=True)
wr_8_1_log = placed(GatedRandomConvolution, "wr_8_1 as coded: σ of wr_8_log's random convolution", squashed=True)
wr_8_2 = placed(GatedMean)
wr_8_2_skip = placed(SkippedMean)
wr_8_2_gate = placed(GatedSkippedMean)
wr_8_2_gains = placed(GainedMean)
wr_8_2_1 = placed(ProjectedMean, "wr_8_2 with c → Hc + b", where="after", scaled=False)
wr_8_2_2 = placed(ProjectedMean, "wr_8_2 with the mean of Hu + b", where="before")
wr_8_2_3 = placed(JoinedMean, "wr_8_2 with c → W[u; c] + b", projected=False)
wr_8_2_4 = placed(JoinedMean, "wr_8_2 with c → W[u; Hc] + b", projected=True)
wr_8_3 = placed(DepthwiseMean)
wr_8_3_log = placed(GroupedMean)
wr_example = placed(GatedMean, "wr_8_2 with n = 4 and a flat start: the notes' ExampleMixing block", n=4, random=False)
