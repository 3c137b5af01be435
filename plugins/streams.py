"""Hyper-connections: n residual streams, of which a sublayer reads a mixture and to all of which it writes.

    hc      h = A_mᵀ H,   H' = A_rᵀ H + Bᵀ s         tables of numbers, or of the stream: A + s tanh(N(H) W)
    frac    the same over the n parts of one stream, each D/n wide
    mhc     h = Σ_i σ(p_i) H_i,   H'_j = 2σ(o_j) s + Σ_i M_ij H_i,   M doubly stochastic; p, o, M made of vec(H)

H is (B, T, n, width of a stream); s is what the sublayer answers. What a write takes is made of the stream that it writes to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from zoo.errors import ZooError
from zoo.extension import ATTENTION, FFN, Layer, Residual, Site, hint, preset
from zoo.functional import normed_product
from zoo.history import History


def _chosen(layer: Layer, site: Site, n: int) -> int:
    """The stream that a sublayer reads at the start: k mod n, k = 1 … 2L counting sublayers."""
    return (2 * layer.index + (1 if site == ATTENTION else 2)) % n


class MadeOfStream(nn.Module):
    """What a sublayer's read and write need of a stream, made once for both where they are given the same one."""

    kept: tuple[Tensor, Tensor] | None = None  # between read and write: the stream, and what was made of it

    def made(self, stream: Tensor) -> Tensor:
        raise NotImplementedError

    def for_read(self, stream: Tensor) -> Tensor:
        self.kept = stream, self.made(stream)
        return self.kept[1]

    def for_write(self, stream: Tensor) -> Tensor:
        kept, self.kept = self.kept, None
        return kept[1] if kept is not None and kept[0] is stream else self.made(stream)


class Tables(MadeOfStream):
    """A_m (n, columns), A_r (n, n) and B (n) of one sublayer; `dynamic` adds s · tanh(N(H) W) to each, W from 0.

    N is a LayerNorm over a stream, without gain and bias unless `affine`. One product with all W serves read and write.
    """

    def __init__(self, layer: Layer, width: int, reads: Tensor, dynamic: bool, affine: bool) -> None:
        super().__init__()
        n, columns = reads.shape
        self.eps, self.dynamic = layer.norm_eps, dynamic
        self.a_m = hint(nn.Parameter(reads))
        self.a_r = hint(nn.Parameter(torch.eye(n)))
        self.b = hint(nn.Parameter(torch.ones(n)))
        if dynamic:
            self.w_read = hint(nn.Parameter(torch.zeros(width, columns)), decay=True)
            self.w_write = hint(nn.Parameter(torch.zeros(width, n + 1)), decay=True)  # of A_r, then of B
            self.s_alpha = hint(nn.Parameter(torch.tensor(0.01)))
            self.s_beta = hint(nn.Parameter(torch.tensor(0.01)))
        self.gain = hint(nn.Parameter(torch.ones(width))) if dynamic and affine else None
        self.bias = hint(nn.Parameter(torch.zeros(width))) if dynamic and affine else None

    def made(self, stream: Tensor) -> Tensor:
        """tanh(N(H) [W_m, W_r, w_b]): (B, T, n, columns + n + 1)."""
        streams = stream.view(*stream.shape[:2], self.b.numel(), -1)
        w = torch.cat([self.w_read, self.w_write], dim=1)
        made = normed_product(streams, w if self.gain is None else self.gain[:, None] * w, self.eps, centred=True)
        return torch.tanh(made if self.bias is None else made + self.bias @ w)

    def of_read(self, stream: Tensor) -> Tensor:
        """A_m, (n, columns) or (B, T, n, columns)."""
        if not self.dynamic:
            return self.a_m
        return self.a_m + self.s_alpha * self.for_read(stream)[..., : self.a_m.size(1)]

    def of_write(self, stream: Tensor) -> tuple[Tensor, Tensor]:
        """A_r (…, n, n) and B (…, n, 1)."""
        b = self.b[:, None]
        if not self.dynamic:
            return self.a_r, b
        for_mix, for_branch = self.for_write(stream)[..., self.a_m.size(1) :].split([b.numel(), 1], dim=-1)
        return self.a_r + self.s_alpha * for_mix, b + self.s_beta * for_branch


class HyperConnections(Residual):
    """n streams: h = A_mᵀ H, H' = A_rᵀ H + Bᵀ s; opened with n copies, closed with their mean."""

    widens = True

    def __init__(self, layer: Layer, n: int = 4, dynamic: bool = True, affine: bool = False) -> None:
        super().__init__()
        if n < 1:
            raise ZooError(f"n = {n} must be a positive number of streams")
        self.n = n
        self.tables = nn.ModuleDict(
            {
                site: Tables(layer, self.width(layer), self.reads_at(layer, site), dynamic, affine)
                for site in (ATTENTION, FFN)
            }
        )

    def width(self, layer: Layer) -> int:
        """Of one stream."""
        return layer.width

    def reads_at(self, layer: Layer, site: Site) -> Tensor:
        """A_m at the start: e_{k mod n}."""
        return torch.eye(self.n)[_chosen(layer, site, self.n)][:, None].clone()

    def open(self, embedding: Tensor) -> Tensor:
        return embedding.unsqueeze(2).expand(-1, -1, self.n, -1)

    def close(self, stream: Tensor) -> Tensor:
        return stream.mean(dim=2)

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor:
        return (self.tables[site].of_read(stream).mT @ self.apart(stream)).flatten(2)

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        a_r, b = self.tables[site].of_write(stream)
        mixed = (a_r.mT @ self.apart(stream)).to(stream.dtype)
        return mixed.addcmul_(b, self.given(branch)).view(stream.shape)

    def apart(self, stream: Tensor) -> Tensor:
        """H of a stream, (B, T, n, width)."""
        return stream

    def given(self, branch: Tensor) -> Tensor:
        """What the streams are given of a branch: all of it."""
        return branch.unsqueeze(2)

    def probes(self) -> dict[str, Tensor]:
        tables = {"read": "a_m", "mix": "a_r", "write": "b"}
        return {f"{name}_{site}": getattr(t, at) for site, t in self.tables.items() for name, at in tables.items()}


hc_static = preset(
    HyperConnections, "h = A_mᵀ H, H' = A_rᵀ H + Bᵀ s", starts_as="baseline", dynamic=False, affine=False
)
hc_dynamic = preset(
    HyperConnections,
    "h = A_mᵀ H, H' = A_rᵀ H + Bᵀ s, A and B moved by tanh(N(H) W)",
    starts_as="baseline",
    dynamic=True,
)


class FracConnections(HyperConnections):
    """Hyper-connections over the n parts of x: `read` gives n mixed parts side by side, part j of a branch goes to part j."""

    widens = False

    def __init__(self, layer: Layer, n: int = 2, dynamic: bool = True, affine: bool = True) -> None:
        if n < 1 or layer.width % n:
            raise ZooError(f"n = {n} must be a number of parts that divides the model's width, which is {layer.width}")
        super().__init__(layer, n, dynamic, affine)

    def width(self, layer: Layer) -> int:
        return layer.width // self.n

    def reads_at(self, layer: Layer, site: Site) -> Tensor:
        return torch.eye(self.n)

    def open(self, embedding: Tensor) -> Tensor:
        return embedding

    def close(self, stream: Tensor) -> Tensor:
        return stream

    def apart(self, stream: Tensor) -> Tensor:
        return stream.unflatten(-1, (self.n, -1))

    def given(self, branch: Tensor) -> Tensor:
        return self.apart(branch)


frac_static = preset(
    FracConnections, "hc_static over the n parts of x", starts_as="baseline", dynamic=False, affine=False
)
frac_dynamic = preset(FracConnections, "hc_dynamic over the n parts of x", starts_as="baseline", dynamic=True)


def _sinkhorn(r: Tensor, iterations: int) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Softmax over j of r (i, j, B, T), divided by the sums over i, then in turn by those over j and i: every quotient,
    with the sums that it was divided by and their dimension."""
    mix = torch.softmax(r, dim=1)
    for step in range(2 * iterations - 1):
        dim = step % 2
        sums = mix.sum(dim=dim, keepdim=True)
        mix = mix / sums
        yield mix, sums, dim


class _Sinkhorn(torch.autograd.Function):
    """Saves r alone and iterates again in backward: what 20 iterations keep would be more than a stream."""

    @staticmethod
    def forward(ctx: Any, r: Tensor, iterations: int) -> Tensor:
        ctx.save_for_backward(r)
        ctx.iterations = iterations
        return _last(_sinkhorn(r, iterations))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (r,) = ctx.saved_tensors
        for mix, sums, dim in reversed(list(_sinkhorn(r, ctx.iterations))):
            grad = (grad - (grad * mix).sum(dim=dim, keepdim=True)) / sums
        soft = torch.softmax(r, dim=1)
        return soft * (grad - (grad * soft).sum(dim=1, keepdim=True)), None


def _last(steps: Iterator[tuple[Tensor, Tensor, int]]) -> Tensor:
    *_, (mix, _, _) = steps
    return mix


def doubly_stochastic(r: Tensor, iterations: int) -> Tensor:
    """M (B, T, i, j) of R (B, T, i, j), whose columns sum to 1 and whose rows nearly do; in at least float32."""
    r = r.permute(2, 3, 0, 1).to(torch.promote_types(r.dtype, torch.float32)).contiguous()
    mix = _last(_sinkhorn(r, iterations)) if torch.compiler.is_compiling() else _Sinkhorn.apply(r, iterations)
    return mix.permute(2, 3, 0, 1).contiguous()  # as it is, every small matrix would be copied by itself


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


class Maps(MadeOfStream):
    """p, o and R of one sublayer: α ⊙ (u φ) + b, u = vec(H) / rms(vec(H)); φ from 0, α from 0.01.

    b starts so that the sublayer reads 0.7 of stream k mod n and as much as that leaves of each other one, and writes 1 to all:
    with a start that is alike for all streams they would stay equal for ever.
    """

    def __init__(self, layer: Layer, n: int, chosen: int) -> None:
        super().__init__()
        self.eps, self.n = layer.norm_eps, n
        reads = torch.full((n,), _logit(0.3 / (n - 1)))
        reads[chosen] = _logit(0.7)
        apart = torch.full((n, n), -8.0).fill_diagonal_(0.0)
        self.phi_read = hint(nn.Parameter(torch.zeros(n * layer.width, n)), decay=True)
        self.phi_write = hint(
            nn.Parameter(torch.zeros(n * layer.width, n + n * n)), decay=True
        )  # of o, then of R by rows
        self.b_read = hint(nn.Parameter(reads))
        self.b_write = hint(nn.Parameter(torch.cat([torch.zeros(n), apart.flatten()])))
        self.alpha = hint(nn.Parameter(torch.full((3,), 0.01)))  # of p, o and R

    def made(self, stream: Tensor) -> Tensor:
        """α ⊙ (u φ) + b: p, o and R side by side, (B, T, n + n + n²)."""
        n = self.n
        phi, b = torch.cat([self.phi_read, self.phi_write], dim=1), torch.cat([self.b_read, self.b_write])
        times = torch.tensor([n, n, n * n], device=b.device, dtype=torch.int64)
        alpha = self.alpha.repeat_interleave(times, output_size=2 * n + n * n)
        return normed_product(stream.flatten(2), phi, self.eps) * alpha + b

    def of_read(self, stream: Tensor) -> Tensor:
        """p (B, T, n)."""
        return self.for_read(stream)[..., : self.n]

    def of_write(self, stream: Tensor) -> tuple[Tensor, Tensor]:
        """o (B, T, n) and R (B, T, n, n)."""
        o, r = self.for_write(stream)[..., self.n :].split([self.n, self.n**2], dim=-1)
        return o, r.unflatten(-1, (self.n, self.n))


class ManifoldHyperConnections(Residual):
    """n streams: h = Σ_i σ(p_i) H_i, H'_j = 2σ(o_j) s + Σ_i M_ij H_i; opened with n copies, closed with their mean.

    `head`: closed with Σ_i σ(α u φ + b)_i H_i, from the mean.
    """

    widens = True

    def __init__(self, layer: Layer, n: int = 4, iterations: int = 20, head: bool = False) -> None:
        super().__init__()
        if n < 2:
            raise ZooError(f"n = {n} must be two streams or more")
        if iterations < 1:
            raise ZooError(f"iterations = {iterations} must be a positive number")
        self.n, self.iterations, self.eps = n, iterations, layer.norm_eps
        self.maps = nn.ModuleDict({site: Maps(layer, n, _chosen(layer, site, n)) for site in (ATTENTION, FFN)})
        self.head = None
        if head and layer.number == layer.num_layers:
            self.head = nn.ParameterDict({
                "phi": hint(nn.Parameter(torch.zeros(n * layer.width, n)), decay=True),
                "b": hint(nn.Parameter(torch.full((n,), _logit(1 / n)))),
                "alpha": hint(nn.Parameter(torch.tensor(0.01))),
            })  # fmt: skip

    def open(self, embedding: Tensor) -> Tensor:
        return embedding.unsqueeze(2).expand(-1, -1, self.n, -1)

    def close(self, stream: Tensor) -> Tensor:
        if self.head is None:
            return stream.mean(dim=2)
        made = normed_product(stream.flatten(2), self.head["phi"], self.eps)
        share = torch.sigmoid(self.head["alpha"] * made + self.head["b"])
        return (share.unsqueeze(2) @ stream).squeeze(2)

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor:
        share = torch.sigmoid(self.maps[site].of_read(stream))
        self.watch(f"read_{site}", share, each=True)
        self.watch(f"spread_{site}", (stream - stream.mean(dim=2, keepdim=True)).norm() / stream.norm())
        return (share.unsqueeze(2) @ stream).squeeze(2)

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        o, r = self.maps[site].of_write(stream)
        mix = doubly_stochastic(r, self.iterations).to(stream.dtype)
        return (mix.mT @ stream).to(stream.dtype).addcmul_(2 * torch.sigmoid(o).unsqueeze(-1), branch.unsqueeze(2))

    def probes(self) -> dict[str, Tensor]:
        return {f"alpha_{site}": maps.alpha for site, maps in self.maps.items()}


mhc = preset(
    ManifoldHyperConnections,
    "h = Σ_i σ(p_i) H_i, H'_j = 2σ(o_j) s + Σ_i M_ij H_i, M doubly stochastic",
    starts_as="baseline",
)
