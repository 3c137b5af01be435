"""Local mixing: a token with the few before it, in learned shares or in shares that the token sets.

u is what a site is given, u_{t−k} = 0 before the start:

    canon               z_t = u_t + Σ_{k<4} w_k ⊙ u_{t−k}                                       (arXiv 2512.17351)
    primer_dconv        [q; k; v]_t ← Σ_{k<3} w_k ⊙ [q; k; v]_{t−k}                             (arXiv 2109.08668)
    token_shift         x_□ = μ_□ ⊙ u_t + (1−μ_□) ⊙ u_{t−1} for q, k, v and the FFN             (arXiv 2305.13048)
    token_shift_lora    x_□ = u + Δ ⊙ (λ_□ + tanh((u + Δ ⊙ μ_x) A_□) B_□),  Δ = u_{t−1} − u_t   (arXiv 2404.05892)
    kv_shift            k_t ← α_t k_{t−1} + (1−α_t) k_t per head, α = σ(u w); v alike           (arXiv 2503.02130)
    smear               e_t ← e_t + λ σ(w·e_t[:12]) e_{t−1}, e the embedding                    (modded-nanogpt)
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.extension import AttentionInputs, InnerSite, Layer, MixingSite, OuterSite, TemporalMixing, hint, preset
from zoo.state import State
from zoo.sums import previous, shared_with_previous, taps

ZOO_API = (1, 2)

AnySite = MixingSite | InnerSite | OuterSite
Where = Literal["both", "attention_input", "ffn"]


def joined_width(layer: Layer) -> int:
    """The width of queries, keys and values side by side."""
    return (layer.num_heads + 2 * layer.num_kv_heads) * layer.head_dim


class Sited(TemporalMixing):
    """A mixing with a module of its own at each of some sites."""

    def __init__(self, parts: dict[AnySite, TemporalMixing]) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(parts)

    def at(self, site: AnySite) -> TemporalMixing | None:
        part = dict(self.parts.items()).get(site)
        assert part is None or isinstance(part, TemporalMixing)
        return part


# -- canon, primer_dconv: a few taps for every channel -------------------------------------------------------------------


class Taps(TemporalMixing):
    """Σ_k w_k ⊙ u_{t−k} for w (taps, width), this token's first; `residual`: added to u."""

    def __init__(self, start: Tensor, residual: bool, site: AnySite) -> None:
        super().__init__()
        self.site = site
        self.w = hint(nn.Parameter(start))
        self.residual = residual

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        # u is one more in the first tap: no pass over the sequence for it.
        weights = torch.cat([self.w[:1] + 1, self.w[1:]]) if self.residual else self.w
        return taps(self, u, weights, state).to(u.dtype)


LETTERS: dict[str, AnySite] = {"A": "attention_input", "B": "qkv", "C": "ffn", "D": "ffn_inner"}


class Canon(Sited):
    """z_t = u_t + Σ_k w_k ⊙ u_{t−k} at sites A (attention's input), B (q, k, v), C (the FFN's input), D (gate and up)."""

    def __init__(
        self, layer: Layer, sites: str = "ABCD", taps: int = 4, residual: bool = True, zero: bool = False
    ) -> None:
        if not sites or len(set(sites)) < len(sites) or not set(sites) <= set(LETTERS):
            raise ZooError(f"sites = {sites!r} must be some of the letters A, B, C and D, each once")
        check_taps(taps)
        widths = {"A": layer.width, "B": joined_width(layer), "C": layer.width, "D": 2 * layer.ffn_dim}
        bound = 0.0 if zero else taps**-0.5
        super().__init__({
            LETTERS[letter]: Taps(torch.empty(taps, widths[letter]).uniform_(-bound, bound), residual, LETTERS[letter])
            for letter in sites
        })  # fmt: skip
        if zero and residual:
            self.starts_as = "baseline"

    def probes(self) -> dict[str, Tensor]:
        parts = {letter: self.at(site) for letter, site in LETTERS.items()}
        return {
            f"taps_{letter.lower()}": part.w.square().mean(dim=1).sqrt()
            for letter, part in parts.items()
            if isinstance(part, Taps)
        }


def check_taps(count: int) -> None:
    if count < 1:
        raise ZooError(f"taps = {count} must be a positive number of tokens, this one among them")


class PrimerConvolutions(Taps):
    """Queries, keys and values convolved for each channel: ½ of this token and ½/K of each of the K − 1 others at first."""

    def __init__(self, layer: Layer, taps: int = 3) -> None:
        check_taps(taps)
        start = torch.full((taps, joined_width(layer)), 0.5 / taps)
        start[0] = 0.5
        super().__init__(start, residual=False, site="qkv")
        queries, keys = layer.num_heads * layer.head_dim, layer.num_kv_heads * layer.head_dim
        self.widths = [queries, keys, keys]

    def probes(self) -> dict[str, Tensor]:
        parts = self.w.split(self.widths, dim=1)
        return {f"taps_{name}": part.mean(dim=1) for name, part in zip("qkv", parts, strict=True)}


# -- token_shift, token_shift_lora: this token and the one before, for each consumer -------------------------------------


def first_shares(layer: Layer, sites: Where, ffn_power: int) -> dict[AnySite, Tensor]:
    """μ at the start (consumers, D) of each chosen site, with channel i/D, ρ = 1 − l/L, τ = l/(L − 1): RWKV-5's."""
    if ffn_power < 1:
        raise ZooError(f"ffn_power = {ffn_power} must be at least 1: 1 in RWKV-4 and 5, 3 in RWKV-6, 4 in RWKV-7")
    channel = torch.arange(layer.width) / layer.width
    rho, tau = 1 - layer.index / layer.num_layers, layer.index / max(1, layer.num_layers - 1)
    query, key, value = channel ** (rho / 2), channel**rho, channel**rho + 0.3 * tau
    shares: dict[AnySite, Tensor] = {
        "attention_input": torch.stack([query, key, value]),
        "ffn": (channel ** (rho**ffn_power))[None],
    }
    chosen = {site: share for site, share in shares.items() if sites in ("both", site)}
    if not chosen:
        raise ZooError(f"sites = {sites!r} must be 'both', 'attention_input' or 'ffn'")
    return chosen


CONSUMERS: dict[str, tuple[str, ...]] = {"attention_input": ("query", "key", "value"), "ffn": ("ffn",)}


def for_consumers(inputs: tuple[Tensor, ...]) -> Tensor | AttentionInputs:
    """One input, or those of query, key and value."""
    return inputs[0] if len(inputs) == 1 else AttentionInputs(*inputs)


class Shift(TemporalMixing):
    """x_□ = μ_□ ⊙ u_t + (1−μ_□) ⊙ u_{t−1} for every consumer of a site, from `shares` (consumers, D)."""

    def __init__(self, site: AnySite, shares: Tensor) -> None:
        super().__init__()
        self.site = site
        self.mu = hint(nn.Parameter(shares))

    def forward(self, u: Tensor, state: State | None) -> Tensor | AttentionInputs:
        return for_consumers(shared_with_previous(self, u, self.mu, state))

    def own_shares(self) -> Tensor:
        """μ of every consumer."""
        return self.mu


class ShiftLora(TemporalMixing):
    """x_□ = u + Δ ⊙ (λ_□ + tanh((u + Δ ⊙ μ_x) A_□) B_□), Δ = u_{t−1} − u_t; A from 0, λ from 1 − `shares`."""

    def __init__(self, layer: Layer, site: AnySite, shares: Tensor, rank: int) -> None:
        super().__init__()
        self.site = site
        channel = torch.arange(layer.width) / layer.width
        self.mu_x = hint(nn.Parameter(1 - channel ** (1 - layer.index / layer.num_layers)))
        self.lambdas = hint(nn.Parameter(1 - shares))
        self.a = hint(nn.Parameter(torch.zeros(layer.width, len(shares) * rank)), decay=True)  # consumer by consumer
        self.b = hint(nn.Parameter(torch.empty(len(shares), rank, layer.width).uniform_(-0.01, 0.01)), decay=True)

    def forward(self, u: Tensor, state: State | None) -> Tensor | AttentionInputs:
        delta = previous(self, u, state) - u
        low = torch.tanh(torch.addcmul(u, delta, self.mu_x) @ self.a).chunk(len(self.b), dim=-1)
        shares = [each @ b + own for each, b, own in zip(low, self.b, self.lambdas, strict=True)]
        for name, share in zip(CONSUMERS[self.site], shares, strict=True):
            self.watch(f"previous_share_{name}", share)
        return for_consumers(tuple(torch.addcmul(u, delta, share.to(u.dtype)) for share in shares))

    def own_shares(self) -> Tensor:
        """The share of this token in every consumer's input while the maps give 0."""
        return 1 - self.lambdas


class TokenShift(Sited):
    """This token and the one before, in shares that query, key, value and the FFN have each for itself."""

    def __init__(self, layer: Layer, sites: Where = "both", ffn_power: int = 1) -> None:
        super().__init__({site: Shift(site, each) for site, each in first_shares(layer, sites, ffn_power).items()})

    def probes(self) -> dict[str, Tensor]:
        shares = {site: part.own_shares() for site, part in self.parts.items()}  # type: ignore[operator]
        return {
            f"own_share_{name}": share.mean()
            for site, each in shares.items()
            for name, share in zip(CONSUMERS[site], each, strict=True)
        }


class TokenShiftLora(TokenShift):
    """Token shift whose shares a map of low rank moves, token by token; from token_shift."""

    starts_as = "token_shift"

    def __init__(self, layer: Layer, sites: Where = "both", ffn_power: int = 1, rank: int | None = None) -> None:
        rank = min(32, layer.width) if rank is None else rank
        if not 1 <= rank <= layer.width:
            raise ZooError(f"rank = {rank} must be from 1 to the model's width, which is {layer.width}")
        shares = first_shares(layer, sites, ffn_power)
        Sited.__init__(self, {site: ShiftLora(layer, site, each, rank) for site, each in shares.items()})


# -- kv_shift, smear: a gate between this token and the one before -------------------------------------------------------


class KvShift(TemporalMixing):
    """k_t ← α_t k_{t−1} + (1−α_t) k_t for each key head, α = σ(u W), before positions; values alike with α of their own."""

    site = "qkv"

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.queries, self.count = layer.num_heads * layer.head_dim, 2 * layer.num_kv_heads
        bound = layer.width**-0.5
        self.w = nn.Parameter(torch.empty(layer.width, self.count).uniform_(-bound, bound))  # of keys, then of values

    def inner(self, x: Tensor, u: Tensor | AttentionInputs, state: State | None) -> Tensor:
        assert isinstance(u, AttentionInputs)
        queries, own = x[..., : self.queries], x[..., self.queries :].unflatten(-1, (self.count, -1))
        share = torch.sigmoid(self.logits(u))
        self.watch("previous_share", share)
        mixed = torch.lerp(own, previous(self, own, state), share.unsqueeze(-1).to(own.dtype))
        return torch.cat([queries, mixed.flatten(2)], dim=-1)

    def logits(self, u: AttentionInputs) -> Tensor:
        """(B, T, 2 Hkv): of keys by what they were projected from, of values by theirs."""
        if u.key is u.value:
            return u.key @ self.w
        return torch.cat([x @ w for x, w in zip((u.key, u.value), self.w.chunk(2, dim=-1), strict=True)], dim=-1)


class Smear(TemporalMixing):
    """e_t + λ σ(w·e_t[:dims]) e_{t−1} at the embedding, w and λ from 0."""

    site = "embedding"

    def __init__(self, layer: Layer, dims: int) -> None:
        super().__init__()
        self.w = hint(nn.Parameter(torch.zeros(min(dims, layer.width))))
        self.scale = hint(nn.Parameter(torch.zeros(())))

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        gate = torch.sigmoid(u[..., : self.w.numel()] @ self.w)
        self.watch("gate", gate)
        share = (self.scale * gate).unsqueeze(-1).to(u.dtype)
        return torch.addcmul(u, previous(self, u, state), share)

    def probes(self) -> dict[str, Tensor]:
        return {"lambda": self.scale}


def smear_once(layer: Layer, dims: int = 12) -> TemporalMixing:
    """e_t ← e_t + λ σ(w·e_t[:dims]) e_{t−1} at the embedding: the first layer has it for the whole model."""
    if dims < 1:
        raise ZooError(f"dims = {dims} must be a positive number of channels")
    return Smear(layer, dims) if layer.index == 0 else TemporalMixing()


canon = preset(Canon)
canon_a = preset(Canon, "z_t = u_t + Σ_k w_k ⊙ u_{t−k} before attention", sites="A")
canon_c = preset(Canon, "z_t = u_t + Σ_k w_k ⊙ u_{t−k} before the FFN", sites="C")
canon_ac = preset(Canon, "z_t = u_t + Σ_k w_k ⊙ u_{t−k} before attention and before the FFN", sites="AC")
primer_dconv = preset(PrimerConvolutions)
token_shift = preset(TokenShift)
token_shift_lora = preset(TokenShiftLora, starts_as="token_shift")
kv_shift = preset(KvShift)
smear = preset(smear_once, starts_as="baseline")
