"""Two lists of results compared: paired by seed where that can be."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

import zoo


def test_lists_dictionaries_and_results() -> None:
    ours, theirs = [3.1, 3.3, 3.0], [3.4, 3.9, 3.2]
    paired = stats.ttest_rel(ours, theirs).pvalue
    difference = zoo.compare(ours, theirs)
    assert difference.p == pytest.approx(paired) and difference.mean == pytest.approx(-11 / 30)
    assert difference.low < difference.mean < difference.high
    by_seed = {3: 3.2, 1: 3.4, 2: 3.9, 7: 100.0}
    assert zoo.compare({1: 3.1, 2: 3.3, 3: 3.0}, by_seed).p == pytest.approx(paired)  # whatever the order
    results = [SimpleNamespace(seed=s, loss=loss) for s, loss in ((2, 3.3), (1, 3.1), (3, 3.0))]
    summaries = [SimpleNamespace(seed=s, valid_loss=loss) for s, loss in ((1, 3.4), (2, 3.9), (3, 3.2))]
    runs = [SimpleNamespace(summary=each) for each in summaries]
    assert zoo.compare(results, summaries).p == zoo.compare(results, runs).p == pytest.approx(paired)


def test_without_pairs_the_means_are_compared() -> None:
    ours, theirs = [3.1, 3.3, 3.0, 3.2], [3.4, 3.9]
    welch = stats.ttest_ind(ours, theirs, equal_var=False).pvalue
    assert zoo.compare(ours, theirs).p == pytest.approx(welch)
    seeds = {1: 3.1, 2: 3.3, 3: 3.0, 4: 3.2}
    assert zoo.compare(seeds, {8: 3.4, 9: 3.9}).p == pytest.approx(welch)


def test_numbers_of_numpy_and_torch_are_numbers() -> None:
    expected = zoo.compare([3.1, 3.3], [3.4, 3.9])
    assert zoo.compare(np.array([3.1, 3.3]), [3.4, 3.9]) == expected
    assert zoo.compare(torch.tensor([3.1, 3.3], dtype=torch.float64), [3.4, 3.9]) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "sentence"),
    [
        (
            [3.1, 3.3, 3.0],
            [3.4, 3.7, 3.3],
            r"difference -0\.3333, 95 % interval -0\.4768 to -0\.1899, p = 0\.0099, seeds 3: lower, which of losses is better",
        ),
        ([3.4, 3.7, 3.3], [3.1, 3.3, 3.0], r"difference \+0\.3333, .*: higher, which of losses is worse"),
        ([3.1, 3.3, 3.0], [3.4, 3.0], r"difference -0.06667, .*, seeds 3 and 2: open, as the interval has 0 in it"),
        ([3.1, 3.3], [3.1, 3.3], r"difference \+0, 95 % interval \+0 to \+0, p = 1, seeds 2: the same"),
        ([3.1], [3.2], r"difference -0\.1, without an interval \(seeds 1\): open"),
        ([3.1, math.nan], [3.2, 3.1], r"difference \+nan, without an interval \(a value is not finite\): open"),
    ],
)
def test_a_difference_is_printed_with_what_it_says(ours: list[float], theirs: list[float], sentence: str) -> None:
    assert re.fullmatch(sentence, str(zoo.compare(ours, theirs)))


@pytest.mark.parametrize(
    ("ours", "complaint"),
    [
        ([], "nothing to compare"),
        (["3.1"], "str has no loss to compare"),
        (None, "NoneType has no loss to compare"),
        ({1: "3.1", 2: 3.0}, "'3.1' is no number to compare"),
        ([SimpleNamespace(seed=1, loss=1.0)] * 2, "seed 1 is there twice"),
    ],
)
def test_what_cannot_be_compared(ours: list[object], complaint: str) -> None:
    with pytest.raises(zoo.ZooError, match=complaint):
        zoo.compare(ours, [1.0, 2.0])  # type: ignore[arg-type]
