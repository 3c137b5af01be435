"""What the published mixers of a token with its whole past have in common: site, starting values, short convolutions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.extension import Layer, MixingSite, TemporalMixing, hint
from zoo.state import State


class Mixer(TemporalMixing):
    """z of u at a site; at the inputs of attention and the FFN `residual` makes it u + z.

    What makes z, `mix`, ends with an output matrix or with an RMSNorm that has a gain. Where z is added they start at 0, and so
    the block as the plain one; in attention's place as the host's output matrices do.
    """

    def __init__(self, site: MixingSite, residual: bool) -> None:
        super().__init__()
        self.site = site
        self.added = residual and site != "attention"
        if self.added:
            self.starts_as = "baseline"

    def mix(self, u: Tensor, state: State | None) -> Tensor:
        raise NotImplementedError

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        z = self.mix(u, state)
        return u + z.to(u.dtype) if self.added else z

    def out_matrix(self, start: nn.Parameter) -> nn.Parameter:
        """The output matrix: from `start` in attention's place, from 0 where z is added."""
        return nn.Parameter(torch.zeros_like(start)) if self.added else start

    def out_gain(self, layer: Layer) -> nn.Parameter | None:
        """The gain of a last norm in place of an output matrix: from 0 where z is added, none where it is u's successor.

        In attention's place what is written is at first as long as what an output matrix of the host makes of a normed row.
        """
        if self.added:
            return vector(torch.zeros(layer.width))
        if self.site != "attention":
            return None
        return vector(torch.full((layer.width,), layer.out_std * layer.width**0.5))

    def gain_probe(self, gain: nn.Parameter | None) -> dict[str, Tensor]:
        """How much of z is added: the gain's root mean square."""
        return {} if gain is None else {"gain": gain.square().mean().sqrt()}

    def before(self, state: State | None, name: str = "state") -> Tensor | None:
        """The state of the recurrence before this pass."""
        return None if state is None else state.get(self, name)

    def keep(self, state: State | None, last: Tensor, name: str = "state") -> None:
        """Keep the state of the recurrence for the next pass."""
        if state is not None:
            state.set(self, name, last)


class MatrixStateMixer(Mixer):
    """A mixer whose state is a matrix per head. `sizes` are those settings that are at least 1 where they are given."""

    def __init__(
        self, layer: Layer, heads: int | None, chunk: int | None, site: MixingSite, residual: bool, **sizes: int | None
    ) -> None:
        super().__init__(site, residual)
        at_least_one(chunk=chunk, **sizes)
        self.heads, self.chunk, self.eps = heads_of(layer, heads), chunk, layer.norm_eps


def normal(rows: int, columns: int, std: float) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * std)


def uniform(*shape: int, bound: float) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


def linear(rows: int, columns: int) -> nn.Parameter:
    """A matrix that starts as torch's Linear does: U(±1/√columns)."""
    return uniform(rows, columns, bound=columns**-0.5)


def xavier(rows: int, columns: int, gain: float) -> nn.Parameter:
    return uniform(rows, columns, bound=gain * math.sqrt(6 / (rows + columns)))


def joined(*parts: nn.Parameter) -> nn.Parameter:
    """Several matrices that read one input, joined into one: a single product gives all of their outputs."""
    return nn.Parameter(torch.cat([part.detach() for part in parts]))


def vector(values: Tensor) -> nn.Parameter:
    """A parameter without weight decay."""
    return hint(nn.Parameter(values), decay=False)


def short_convolution(channels: int) -> nn.Parameter:
    """Four taps per channel, the current token's first: U(±½)."""
    return hint(uniform(4, channels, bound=0.5), decay=False)


def softplus_inverse(y: Tensor) -> Tensor:
    return y + torch.log(-torch.expm1(-y))


def step_bias(count: int) -> nn.Parameter:
    """b of Δ = softplus(· + b), with Δ log-uniform in [0.001, 0.1] at 0."""
    step = torch.exp(torch.empty(count).uniform_(math.log(1e-3), math.log(0.1)))
    return vector(softplus_inverse(step))


def wide(x: Tensor) -> Tensor:
    """x in at least float32, as decays and gates of a recurrence are made."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def heads_of(layer: Layer, heads: int | None) -> int:
    """The number of heads: that of the host unless given."""
    count = layer.num_heads if heads is None else heads
    if not 1 <= count <= layer.width:
        raise ZooError(f"heads = {count} must be from 1 to the model's width, which is {layer.width}")
    return count


def at_least_one(**settings: int | None) -> None:
    """Refuse sizes below 1; None is a default."""
    for name, value in settings.items():
        if value is not None and value < 1:
            raise ZooError(f"{name} = {value} must be at least 1")
