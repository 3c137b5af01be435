"""The computed order: a permutation, the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.data.order import Permutation


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 1000, 65_537])
def test_every_number_comes_once(count: int) -> None:
    assert sorted(Permutation(count, 1)(np.arange(count)).tolist()) == list(range(count))


def test_the_words_alone_decide() -> None:
    places = np.arange(100)
    orders = [
        Permutation(1000, *words)(places).tolist() for words in ((1, "epoch", 0), (1, "epoch", 1), (2, "epoch", 0))
    ]
    assert len({tuple(order) for order in orders}) == 3
    assert Permutation(1000, 1, "epoch", 0)(places[50:]).tolist() == orders[0][50:]  # any place on its own


def test_the_order_is_that_of_every_machine_and_version() -> None:
    """Written down once: runs resume and are compared by it."""
    assert Permutation(100_000, 7, "epoch", 3)(np.arange(6)).tolist() == GOLDEN


GOLDEN = [71373, 21784, 67372, 54131, 30643, 5514]


def test_it_is_well_shuffled() -> None:
    order = Permutation(100_000, 3)(np.arange(100_000))
    assert abs(np.corrcoef(np.arange(100_000), order)[0, 1]) < 0.02
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.02
    tenths = np.bincount(order[:10_000] // 10_000, minlength=10)
    assert tenths.min() > 850 and tenths.max() < 1150


def test_large_numbers_take_no_memory() -> None:
    numbers = Permutation(1 << 40, 1)(np.array([0, 1, (1 << 40) - 1]))
    assert len(set(numbers.tolist())) == 3 and numbers.min() >= 0 and numbers.max() < 1 << 40
