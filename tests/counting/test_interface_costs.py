"""FLOPs of what the interface offers beyond plain factors: null logits, weights, transforms, solves, idle attention."""

from __future__ import annotations

import functools

import pytest
import torch
from helpers import small_methods as small, small_sites as sites

from zoo.counting import flops
from zoo.extension import Layer, TemporalMixing, preset
from zoo.model.build import model

T, D, L, V = 12, 32, 2, 64


def cost(**slots: object) -> flops.TrainingCost:
    return flops.training_cost(functools.partial(model, V, T, depth=L, width=D, head_dim=8, ffn_dim=40, **slots), T)


def test_a_null_logit_costs_nothing() -> None:
    assert cost(score_mixing=small.Sink).flops == pytest.approx(cost().flops)
    assert cost(score_mixing=small.Sink).flops_executed == pytest.approx(cost().flops_executed)
    pairs = 6 * D * (T + 1) / 2  # of scores, forward and backward
    assert cost(score_mixing=preset(small.Sink, twice=True)).flops == pytest.approx(cost().flops + L * pairs)


def test_a_gate_of_heads_costs_its_product() -> None:
    assert cost(head_mixing=small.GatedOutput).flops == pytest.approx(cost().flops + 6 * L * D * 4)


def test_an_attention_that_is_not_there_is_not_counted() -> None:
    def instead(layer: Layer) -> TemporalMixing:
        return sites.Shift(layer.width, "attention")

    plain, without, half = cost(), cost(temporal_mixing=instead), cost(temporal_mixing=sites.every_other)
    attention = 6 * 4 * D * D + 6 * 2 * D * (T + 1) / 2
    assert without.flops == pytest.approx(plain.flops - L * attention)
    assert half.flops == pytest.approx(plain.flops - attention)
    assert without.parameters == plain.parameters - L * (4 * D * D - D) and without.idle == 0


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_transforms_and_solves_are_counted(device: str) -> None:
    x, matrix = torch.randn(2, 3, 32, device=device), torch.randn(5, 8, 8, device=device)
    with flops.Counter() as counter:
        spectrum = torch.fft.rfft(x)
    assert counter.total() == 6 * 5 * 32 * 5 // 2  # 5 n log₂ n, half of it for real numbers
    with flops.Counter() as counter:
        torch.fft.irfft(spectrum, n=32)
    assert counter.total() == 6 * 5 * 32 * 5 // 2
    with flops.Counter() as counter:
        torch.linalg.solve_triangular(matrix, matrix[..., :3], upper=False)
    assert counter.total() == 5 * 8 * 8 * 3
