"""The table of the ladders follows from the law."""

from __future__ import annotations

import pytest

from zoo.scaling.size_law import recipe

# depth, aspect, N in millions, 20 N in millions, batch in thousands, rate, steps: as they were published
POCKET = [(2, 0.10, 2.0, 3, 0.024, 640), (3, 0.33, 6.6, 7, 0.016, None), (4, 0.79, 16, 12, 0.012, None)]
POCKET += [(5, 1.5, 31, 19, 0.010, 1600)]
BENCH = [(6, 11, 210, 70, 0.0051, 3000), (16, 201, 4000, 496, 0.0019, 8100)]


@pytest.mark.parametrize(("depth", "size", "tokens", "batch", "rate", "steps"), POCKET)
def test_pocket(depth: int, size: float, tokens: float, batch: float, rate: float, steps: int | None) -> None:
    law = recipe(depth, aspect=32, tokens_per_parameter=20, length=128)
    assert law.width == 32 * depth and law.beta2 == 0.99 and law.warmup == law.parameters
    assert law.parameters / 1e6 == pytest.approx(size, rel=0.05)
    assert law.tokens / 1e6 == pytest.approx(tokens, rel=0.05)
    assert law.batch / 1e3 == pytest.approx(batch, rel=0.08) and law.batch % 128 == 0
    assert law.rate == pytest.approx(rate, rel=0.04)
    assert steps is None or law.steps == pytest.approx(steps, rel=0.03)


@pytest.mark.parametrize(("depth", "size", "tokens", "batch", "rate", "steps"), BENCH)
def test_bench(depth: int, size: float, tokens: float, batch: float, rate: float, steps: int) -> None:
    law = recipe(depth, aspect=64, tokens_per_parameter=20, length=1024)
    assert law.parameters / 1e6 == pytest.approx(size, rel=0.04)
    assert law.tokens / 1e6 == pytest.approx(tokens, rel=0.02)
    assert law.batch / 1e3 == pytest.approx(batch, rel=0.03)
    assert law.rate == pytest.approx(rate, rel=0.02)
    assert law.steps == pytest.approx(steps, rel=0.02)


def test_a_batch_has_at_least_one_row() -> None:
    assert recipe(1, aspect=2, tokens_per_parameter=20, length=1024).batch == 1024


def test_a_large_batch_forgets_faster() -> None:
    assert recipe(20, aspect=64, tokens_per_parameter=20, length=1024).beta2 == 0.95
