"""How predictable a text is without any model."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from zoo.data.entropy import compressed_bits, unigram_entropy


def test_a_compressor_needs_little_for_what_repeats_and_all_for_noise() -> None:
    assert compressed_bits(b"again " * 10_000) < 0.1
    assert compressed_bits(random.Random(1).randbytes(20_000)) == pytest.approx(8.0, rel=0.02)


def test_the_entropy_is_that_of_the_training_frequencies() -> None:
    trained_on = np.array([2, 1, 0])  # with one more of each of the three: 3, 2 and 1 of 6
    assert unigram_entropy(trained_on, np.array([1, 1, 2])) == pytest.approx(
        (math.log(2) + math.log(3) + 2 * math.log(6)) / 4
    )
