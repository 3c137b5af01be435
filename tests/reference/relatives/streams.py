"""Several streams: Hyper-Connections, manifold-constrained ones, and Frac-Connections.

In the parallel host both sites read the block's input H; attention writes to it, then the FFN to what attention left. What a
write takes from the stream (A_r, B, M, o) is made of the stream that it writes to.
"""

import math

import torch
from torch import Tensor

from .host import SITES, Model, is_last
from .starts import Start, full, zeros


def layer_norm(x: Tensor, eps: float) -> Tensor:
    """Without gain and bias."""
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(dim=-1, keepdim=True) + eps)


def sublayer_number(m: int, site: str) -> int:
    """k, from 1: attention of layer m is 2m − 1, its FFN 2m."""
    return 2 * m - 1 if site == "attention" else 2 * m


class Streams(Model):
    """open, (read, sublayer, write) twice per layer, close; H is (B, T, n, width of a stream)."""

    def open(self, x: Tensor) -> Tensor:
        """n copies."""
        return torch.stack([x] * self.n, dim=2)

    def close(self, streams: Tensor) -> Tensor:
        """The mean of the streams."""
        return streams.mean(dim=2)

    def part(self, m: int, site: str, name: str) -> Tensor:
        return self.own(m)[f"{name}_{site}"]

    def read(self, m: int, site: str, streams: Tensor) -> Tensor:
        raise NotImplementedError

    def write(self, m: int, site: str, streams: Tensor, branch: Tensor) -> Tensor:
        raise NotImplementedError

    def stack(self, x: Tensor) -> Tensor:
        streams = self.open(x)
        for m in self.numbers():
            a = self.attention(m, self.read(m, "attention", streams))
            after = self.write(m, "attention", streams, a)
            f = self.ffn(m, self.read(m, "ffn", streams if self.parallel else after))
            streams = self.write(m, "ffn", after, f)
        return self.close(streams)

    def site_shapes(self, layer) -> dict:
        """The parameters of one site."""
        raise NotImplementedError

    def site_start(self, layer, site: str) -> dict[str, Start]:
        raise NotImplementedError

    def shapes(self, layer):
        one = self.site_shapes(layer)
        return {f"{name}_{site}": shape for site in SITES for name, shape in one.items()}

    def start(self, layer):
        values = {}
        for site in SITES:
            values |= {f"{name}_{site}": start for name, start in self.site_start(layer, site).items()}
        return values


class HyperConnections(Streams):
    """read h = A_mᵀ H, write H' = A_rᵀ H + Bᵀ s; opened with n copies, closed with the mean (`sum=True`: the sum).

    dynamic: A_m + s_α tanh(N(H) w_m), A_r + s_α tanh(N(H) W_r), B + s_β tanh(N(H) w_b); one s_α for A_m and A_r. N is a
    LayerNorm (`rms=True`: an RMSNorm) with the host's ε, without gain and bias unless `affine`.
    """

    settings = {"n": 4, "dynamic": True, "rms": False, "affine": False, "sum": False}

    def width(self, layer) -> int:
        return layer.width

    def read_columns(self) -> int:
        """How many rows `read` mixes."""
        return 1

    def site_shapes(self, layer):
        n, width, columns = self.n, self.width(layer), self.read_columns()
        shapes = {"a_m": (n, columns), "a_r": (n, n), "b": (n,)}
        if self.dynamic:
            shapes |= {"w_m": (width, columns), "w_r": (width, n), "w_b": (width, 1), "s_alpha": (), "s_beta": ()}
            shapes |= {"norm_gain": (width,), "norm_bias": (width,)} if self.affine else {}
        return shapes

    def read_start(self, layer, site: str) -> Tensor:
        """e_{k mod n}."""
        a_m = zeros(self.n, 1)
        a_m[sublayer_number(layer.number, site) % self.n] = 1
        return a_m

    def site_start(self, layer, site: str):
        eye = torch.eye(self.n, dtype=torch.float64)
        values = {"a_m": self.read_start(layer, site), "a_r": eye, "b": full(1.0, self.n)}
        if self.dynamic:
            values |= {name: zeros(*shape) for name, shape in self.site_shapes(layer).items() if name[0] == "w"}
            values |= {"s_alpha": full(0.01), "s_beta": full(0.01)}
            if self.affine:
                values |= {"norm_gain": full(1.0, self.width(layer)), "norm_bias": zeros(self.width(layer))}
        return values

    def close(self, streams: Tensor) -> Tensor:
        return streams.sum(dim=2) if self.sum else streams.mean(dim=2)

    def normed_streams(self, m: int, site: str, streams: Tensor) -> Tensor:
        unit = self.unit(streams) if self.rms else layer_norm(streams, self.eps)
        if self.affine:
            unit = unit * self.part(m, site, "norm_gain") + self.part(m, site, "norm_bias")
        return unit

    def table(self, m: int, site: str, static: str, map_: str, scale: str, streams: Tensor) -> Tensor:
        """static + scale · tanh(N(H) map): (B, T, n, columns)."""
        value = self.part(m, site, static)
        if value.dim() == 1:
            value = value[:, None]
        value = value.expand(*streams.shape[:2], *value.shape)
        if not self.dynamic:
            return value
        normed = self.normed_streams(m, site, streams)
        return value + self.part(m, site, scale) * torch.tanh(normed @ self.part(m, site, map_))

    def read(self, m, site, streams):
        a_m = self.table(m, site, "a_m", "w_m", "s_alpha", streams)  # (B, T, n, 1)
        return sum(a_m[:, :, i] * streams[:, :, i] for i in range(self.n))

    def spread(self, branch: Tensor) -> list[Tensor]:
        """What each stream is given of a branch."""
        return [branch] * self.n

    def write(self, m, site, streams, branch):
        a_r = self.table(m, site, "a_r", "w_r", "s_alpha", streams)  # (B, T, n, n)
        b = self.table(m, site, "b", "w_b", "s_beta", streams)  # (B, T, n, 1)
        given = self.spread(branch)
        rows = []
        for j in range(self.n):
            row = b[:, :, j] * given[j]
            for i in range(self.n):
                row = row + a_r[:, :, i, j, None] * streams[:, :, i]
            rows.append(row)
        return torch.stack(rows, dim=2)


class FracConnections(HyperConnections):
    """Hyper-Connections over the n parts of x (each D/n wide): `read` concatenates n mixed parts, `a_m` is Y (n×n) from I.

    Part j of the branch is written to part j of the stream. N is over each part, with gain and bias.
    """

    settings = {"n": 2, "dynamic": True, "rms": False, "affine": True}

    def width(self, layer) -> int:
        if layer.width % self.n:
            raise ValueError(f"a width of {layer.width} cannot be cut into {self.n} parts")
        return layer.width // self.n

    def read_columns(self) -> int:
        return self.n

    def read_start(self, layer, site: str) -> Tensor:
        return torch.eye(self.n, dtype=torch.float64)

    def open(self, x: Tensor) -> Tensor:
        return torch.stack(x.chunk(self.n, dim=-1), dim=2)

    def close(self, streams: Tensor) -> Tensor:
        return torch.cat([streams[:, :, i] for i in range(self.n)], dim=-1)

    def spread(self, branch: Tensor) -> list[Tensor]:
        return list(branch.chunk(self.n, dim=-1))

    def read(self, m, site, streams):
        y = self.table(m, site, "a_m", "w_m", "s_alpha", streams)  # (B, T, n, n)
        parts = [sum(y[:, :, i, j, None] * streams[:, :, i] for i in range(self.n)) for j in range(self.n)]
        return torch.cat(parts, dim=-1)


def logit(share: float) -> float:
    return math.log(share / (1 - share))


class ManifoldHyperConnections(Streams):
    """read Σ σ(p_i) H_i, write H'_j = 2σ(o_j) s + Σ_i M_ij H_i, [p | o | R] = (α_p, α_o, α_r) ⊙ (u φ) + b, u = vec(H) / rms.

    M: softmax over j of R, then columns, then `iterations` − 1 times rows and columns, divided by their sums. vec goes by
    stream, R by rows (i, then j). `floor`: the authors' 1e-6 on σ(p), on the softmax and on every sum; ours is 0. Start: for
    n streams b_p is logit(.7) on stream k mod n and logit(.3 / (n − 1)) on the others; n = 1 is refused. `head=True`: the last
    layer also has alpha_head, phi_head, b_head, and the streams close with Σ σ(α u φ + b)_i H_i, from b = logit(1/n).
    """

    settings = {"n": 4, "iterations": 20, "floor": 0.0, "head": False}

    def __init__(self, **settings):
        super().__init__(**settings)
        if self.n < 2:
            raise ValueError("mhc needs two streams or more")

    def site_shapes(self, layer):
        outputs = self.n**2 + 2 * self.n
        return {"phi": (self.n * layer.width, outputs), "b": (outputs,), "alpha": (3,)}

    def shapes(self, layer):
        head = {"phi_head": (self.n * layer.width, self.n), "b_head": (self.n,), "alpha_head": ()}
        return super().shapes(layer) | (head if self.head and is_last(layer) else {})

    def site_start(self, layer, site: str):
        n = self.n
        reads = full(logit(0.3 / (n - 1)), n)
        reads[sublayer_number(layer.number, site) % n] = logit(0.7)
        apart = full(-8.0, n, n)
        apart.fill_diagonal_(0.0)
        shapes = self.site_shapes(layer)
        return {
            "phi": zeros(*shapes["phi"]),
            "b": torch.cat([reads, zeros(n), apart.reshape(-1)]),
            "alpha": full(0.01, 3),
        }

    def start(self, layer):
        values = super().start(layer)
        if self.head and is_last(layer):
            values |= {"phi_head": zeros(self.n * layer.width, self.n), "alpha_head": full(0.01)}
            values |= {"b_head": full(logit(1 / self.n), self.n)}
        return values

    def flat(self, streams: Tensor) -> Tensor:
        return self.unit(streams.flatten(2))

    def tables(self, m: int, site: str, streams: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """p (B, T, n), o (B, T, n), R (B, T, n, n)."""
        n = self.n
        free = self.flat(streams) @ self.part(m, site, "phi")
        b, alpha = self.part(m, site, "b"), self.part(m, site, "alpha")
        p = alpha[0] * free[..., :n] + b[:n]
        o = alpha[1] * free[..., n : 2 * n] + b[n : 2 * n]
        r = alpha[2] * free[..., 2 * n :] + b[2 * n :]
        return p, o, r.unflatten(-1, (n, n))

    def doubly_stochastic(self, r: Tensor) -> Tensor:
        mix = torch.softmax(r, dim=-1) + self.floor
        mix = mix / (mix.sum(dim=-2, keepdim=True) + self.floor)
        for _ in range(self.iterations - 1):
            mix = mix / (mix.sum(dim=-1, keepdim=True) + self.floor)
            mix = mix / (mix.sum(dim=-2, keepdim=True) + self.floor)
        return mix

    def read(self, m, site, streams):
        p, _, _ = self.tables(m, site, streams)
        return sum((torch.sigmoid(p[:, :, i, None]) + self.floor) * streams[:, :, i] for i in range(self.n))

    def write(self, m, site, streams, branch):
        _, o, r = self.tables(m, site, streams)
        mix = self.doubly_stochastic(r)
        rows = []
        for j in range(self.n):
            row = 2 * torch.sigmoid(o[:, :, j, None]) * branch
            for i in range(self.n):
                row = row + mix[:, :, i, j, None] * streams[:, :, i]
            rows.append(row)
        return torch.stack(rows, dim=2)

    def close(self, streams: Tensor) -> Tensor:
        if not self.head:
            return streams.mean(dim=2)
        own = self.own(self.depth)
        share = torch.sigmoid(own["alpha_head"] * (self.flat(streams) @ own["phi_head"]) + own["b_head"])
        return sum(share[:, :, i, None] * streams[:, :, i] for i in range(self.n))
