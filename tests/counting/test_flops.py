"""What the counter knows beyond products and plain attention: Fourier transforms, triangular solves, sliding windows."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from torch import Tensor, nn

from zoo.counting import flops
from zoo.errors import PluginError
from zoo.extension import Layer, TemporalMixing
from zoo.model.build import model
from zoo.state import State

torch.set_num_threads(1)
LAYERS, WIDTH, VOCAB, LENGTH = 2, 32, 64, 12


def of(**slots: object) -> flops.Build:
    return functools.partial(model, VOCAB, LENGTH, depth=LAYERS, width=WIDTH, head_dim=8, ffn_dim=40, **slots)


def more(build: flops.Build) -> float:
    """FLOPs of a training step on one row, beyond the plain model's."""
    return (flops.training_cost(build, LENGTH).flops - flops.training_cost(of(), LENGTH).flops) * LENGTH


def more_forward(build: flops.Build) -> float:
    return (sum(flops.forward_flops(build, LENGTH)) - sum(flops.forward_flops(of(), LENGTH))) * LENGTH


class Transforming(TemporalMixing):
    """A long convolution by the Fourier transform, at twice the length."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.ones(layer.max_length, layer.width))

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        length = u.size(1)
        both = (torch.fft.rfft(x, n=2 * length, dim=-2) for x in (u, self.kernel[:length]))
        return torch.fft.irfft(math.prod(both), n=2 * length, dim=-2)[:, :length]


def test_a_fourier_transform_is_counted() -> None:
    n = 2 * LENGTH
    each = 5 * n * math.log2(n) * WIDTH / 2  # of real numbers, in every channel
    build = of(temporal_mixing=Transforming)
    assert more_forward(build) == pytest.approx(LAYERS * 3 * each, rel=1e-4)
    assert more(build) == pytest.approx(LAYERS * (3 + 1 + 2 * 2) * each, rel=1e-4)  # of rfft, backward is complex


class Solving(TemporalMixing):
    """(I + M) z = u, M strictly lower triangular."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.m = nn.Parameter(torch.zeros(layer.max_length, layer.max_length))

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        length = u.size(1)
        m = self.m[:length, :length].tril(-1).expand(u.size(0), -1, -1)
        return torch.linalg.solve_triangular(m, u, upper=False, unitriangular=True)


def test_a_triangular_solve_is_counted() -> None:
    build = of(temporal_mixing=Solving)
    solve = LENGTH**2 * WIDTH
    assert more_forward(build) == pytest.approx(LAYERS * solve)
    assert more(build) == pytest.approx(LAYERS * (2 * solve + 2 * solve))  # a solve forth and back, and a product


class Windowed(TemporalMixing):
    """Attention with one head over the last few tokens, by a mask."""

    def __init__(self, layer: Layer, window: int, additive: bool = False) -> None:
        super().__init__()
        self.window, self.additive = window, additive

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        mask = torch.ones(u.size(1), u.size(1), dtype=torch.bool, device=u.device).tril().triu(1 - self.window)
        if self.additive:
            mask = torch.zeros(mask.shape, dtype=u.dtype, device=u.device).masked_fill(~mask, float("-inf"))
        heads = u[:, None]
        return nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)[:, 0]


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("window", [1, 4, LENGTH])
def test_a_sliding_window_counts_the_pairs_in_it(window: int, additive: bool) -> None:
    build = of(temporal_mixing=functools.partial(Windowed, window=window, additive=additive))
    pairs = sum(min(window, t + 1) for t in range(LENGTH))
    cost = flops.training_cost(build, LENGTH)
    assert more(build) == pytest.approx(LAYERS * 3 * 4 * pairs * WIDTH)
    plain = flops.training_cost(of(), LENGTH)
    again = (cost.flops_executed - cost.flops) - (plain.flops_executed - plain.flops)
    assert again * LENGTH == pytest.approx(LAYERS * 2 * pairs * WIDTH)


def test_a_masked_model_computes_the_same_while_it_is_counted() -> None:
    built = of(temporal_mixing=functools.partial(Windowed, window=3))().double()
    tokens = torch.randint(VOCAB, (2, LENGTH))
    (loss := built.loss(tokens, tokens)).backward()
    gradients = [p.grad.clone() for p in built.parameters()]
    built.zero_grad()
    with flops.counting(built):
        (counted := built.loss(tokens, tokens)).backward()
    assert torch.equal(counted, loss)
    for p, gradient in zip(built.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad, gradient)


class Failing(TemporalMixing):
    """Its forward ends with an error of its own."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        return {}["gate"]


def test_a_method_whose_step_fails_is_named_with_the_place() -> None:
    with pytest.raises(
        PluginError, match=r"^Failing: a training step ends with KeyError: 'gate' \(.*test_flops.py:\d+\)"
    ):
        flops.training_cost(of(temporal_mixing=Failing), LENGTH)
    with pytest.raises(PluginError, match="zoo-plugins check examines"):
        flops.forward_flops(of(temporal_mixing=Failing), LENGTH)
