"""Hyper-connections: n residual streams, of which a sublayer reads a mixture and to all of which it writes.

    hc      h = A_mᵀ H,   H' = A_rᵀ H + Bᵀ s         tables of numbers, or of the stream: A + s tanh(N(H) W)
    frac    the same over the n parts of one stream, each D/n wide
    mhc     h = Σ_i σ(p_i) H_i,   H'_j = 2σ(o_j) s + Σ_i M_ij H_i,   M doubly stochastic; p, o, M made of vec(H)

H is (B, T, n, width of a stream); s is what the sublayer answers. What a write takes is made of the stream that it writes to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from zoo.errors import ZooError
from zoo.extension import ATTENTION, FFN, Layer, Residual, Site, hint, preset
from zoo.functional import normed_product
from zoo.history import History
from zoo.sums import mixed_streams, share_gradients


def _chosen(layer: Layer, site: Site, n: int) -> int:
    """The stream that a sublayer reads at the start: k mod n, k = 1 … 2L counting sublayers."""
    return (2 * layer.index + (1 if site == ATTENTION else 2)) % n


def _copies(x: Tensor, n: int) -> Tensor:
    """n streams (B, T, n, D) of one; real copies, as products with small matrices are slow on anything else."""
    return x.unsqueeze(2).expand(-1, -1, n, -1).contiguous()


class Seen(NamedTuple):
    """A stream as a sublayer's read and write see it."""

    stream: Tensor  # as they are given it
    streams: Tensor  # H (B, T, n, width), whose readers share one gradient
    made: Tensor | None  # what read and write take of it, where they take anything


class MadeOfStream(nn.Module):
    """What a sublayer's read and write need of a stream, made once for both where they are given the same one."""

    kept: Seen | None = None  # between read and write

    def made(self, streams: Tensor) -> Tensor | None:
        raise NotImplementedError

    def for_read(self, stream: Tensor, streams: Tensor) -> Seen:
        """What a sublayer's read needs of a stream; `streams` is that stream as H."""
        (shared,) = share_gradients(streams)
        self.kept = Seen(stream, shared, self.made(shared))
        return self.kept

    def for_write(self, stream: Tensor, streams: Tensor) -> Seen:
        if self.kept is None or self.kept.stream is not stream:
            self.for_read(stream, streams)
        seen, self.kept = self.kept, None
        assert seen is not None
        return seen


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

    def made(self, streams: Tensor) -> Tensor | None:
        """tanh(N(H) [W_m, W_r, w_b]): (B, T, n, columns + n + 1)."""
        if not self.dynamic:
            return None
        w = torch.cat([self.w_read, self.w_write], dim=1)
        made = normed_product(streams, w if self.gain is None else self.gain[:, None] * w, self.eps, centred=True)
        return torch.tanh(made if self.bias is None else made + self.bias @ w)

    def of_read(self, made: Tensor | None) -> Tensor:
        """A_m, (n, columns) or (B, T, n, columns)."""
        return self.a_m if made is None else self.a_m + self.s_alpha * made[..., : self.a_m.size(1)]

    def of_write(self, made: Tensor | None) -> tuple[Tensor, Tensor]:
        """A_r (…, n, n) and B (…, n)."""
        if made is None:
            return self.a_r, self.b
        for_mix = made[..., self.a_m.size(1) : -1]
        return self.a_r + self.s_alpha * for_mix, self.b + self.s_beta * made[..., -1]


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
        """The width of one stream."""
        return layer.width

    def reads_at(self, layer: Layer, site: Site) -> Tensor:
        """A_m at the start: e_{k mod n}."""
        return torch.eye(self.n)[_chosen(layer, site, self.n)][:, None].clone()

    def open(self, embedding: Tensor) -> Tensor:
        return _copies(embedding, self.n)

    def close(self, stream: Tensor) -> Tensor:
        return stream.mean(dim=2)

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor:
        tables = self.tables[site]
        seen = tables.for_read(stream, self.apart(stream))
        return mixed_streams(seen.streams, tables.of_read(seen.made)).flatten(2)

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        tables = self.tables[site]
        seen = tables.for_write(stream, self.apart(stream))
        a_r, b = tables.of_write(seen.made)
        return mixed_streams(seen.streams, a_r, b, self.given(branch)).view(stream.shape)

    def apart(self, stream: Tensor) -> Tensor:
        """H of a stream, (B, T, n, width)."""
        return stream

    def given(self, branch: Tensor) -> Tensor:
        """The part of a branch that is written to the streams: all of it."""
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


def _sinkhorn(r: Tensor, iterations: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Softmax over j of r (i, j, B, T), divided by the sums over i, then in turn by those over j and i: every quotient,
    with the sums that it was divided by."""
    mix = torch.softmax(r, dim=1)
    for step in range(2 * iterations - 1):
        sums = mix.sum(dim=step % 2, keepdim=True)
        mix = mix / sums
        yield mix, sums


class _Sinkhorn(torch.autograd.Function):
    """Saves what came out and the sums that were divided by: their product is what there was before a division.

    With G the gradient of a quotient Q, that of what was divided is (G − Σ G Q) / sums. Backward carries P = G Q, and
    needs no division: from P to P − Q Σ P, for the softmax as well.
    """

    @staticmethod
    def forward(ctx: Any, r: Tensor, iterations: int) -> Tensor:
        quotients, all_sums = zip(*_sinkhorn(r, iterations), strict=True)
        ctx.save_for_backward(quotients[-1], *all_sums)
        return quotients[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        last, *all_sums = ctx.saved_tensors
        mix, p = last.clone(), grad * last
        for step, sums in reversed(list(enumerate(all_sums))):
            p.addcmul_(mix, p.sum(dim=step % 2, keepdim=True), value=-1)
            mix.mul_(sums)
        return p.addcmul_(mix, p.sum(dim=1, keepdim=True), value=-1), None


def doubly_stochastic(r: Tensor, iterations: int) -> Tensor:
    """M (B, T, i, j) of R (B, T, i, j), whose columns sum to 1 and whose rows nearly do; in at least float32."""
    r = r.permute(2, 3, 0, 1).to(torch.promote_types(r.dtype, torch.float32)).contiguous()
    if torch.compiler.is_compiling():
        *_, (mix, _) = _sinkhorn(r, iterations)
    else:
        mix = _Sinkhorn.apply(r, iterations)
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

    def made(self, streams: Tensor) -> Tensor:
        """α ⊙ (u φ) + b: p, o and R side by side, (B, T, n + n + n²)."""
        n = self.n
        phi, b = torch.cat([self.phi_read, self.phi_write], dim=1), torch.cat([self.b_read, self.b_write])
        times = torch.tensor([n, n, n * n], device=b.device, dtype=torch.int64)
        alpha = self.alpha.repeat_interleave(times, output_size=2 * n + n * n)
        return normed_product(streams, phi, self.eps, dims=2) * alpha + b


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
        return _copies(embedding, self.n)

    def close(self, stream: Tensor) -> Tensor:
        if self.head is None:
            return stream.mean(dim=2)
        made = normed_product(stream.flatten(2), self.head["phi"], self.eps)
        share = torch.sigmoid(self.head["alpha"] * made + self.head["b"])
        return (share.unsqueeze(2) @ stream).squeeze(2)

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor:
        seen = self.maps[site].for_read(stream, stream)
        share = torch.sigmoid(seen.made[..., : self.n])
        self.watch(f"read_{site}", share, each=True)
        if self.watcher is not None:
            self.watch(f"spread_{site}", (stream - stream.mean(dim=2, keepdim=True)).norm() / stream.norm())
        return mixed_streams(seen.streams, share.unsqueeze(-1)).squeeze(2)

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        seen = self.maps[site].for_write(stream, stream)
        _, o, r = seen.made.split([self.n, self.n, self.n**2], dim=-1)
        mix = doubly_stochastic(r.unflatten(-1, (self.n, self.n)), self.iterations)
        return mixed_streams(seen.streams, mix, 2 * torch.sigmoid(o), branch.unsqueeze(2))

    def probes(self) -> dict[str, Tensor]:
        return {f"alpha_{site}": maps.alpha for site, maps in self.maps.items()}


mhc = preset(
    ManifoldHyperConnections,
    "h = Σ_i σ(p_i) H_i, H'_j = 2σ(o_j) s + Σ_i M_ij H_i, M doubly stochastic",
    starts_as="baseline",
)
