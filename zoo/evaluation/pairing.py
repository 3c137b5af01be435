"""Outcomes of two arms on one task, paired item by item and seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.errors import ZooError, nearest
from zoo.statistics.crossed import crossed_difference

if TYPE_CHECKING:
    from zoo.evaluation.outcomes import Outcome
    from zoo.statistics.difference import Difference


def paired_outcomes(ours: Sequence[Outcome], theirs: Sequence[Outcome], measure: str = "") -> Difference:
    """Ours less theirs in one figure of a task, by default its first, over the items and the seeds that both have."""
    first = ours[0]
    measure = measure or next(iter(first.measures))
    if measure not in first.measures:
        raise ZooError(f"{first.task} has no figure {measure}{nearest(measure, first.measures)}; it has"
                       f" {', '.join(first.measures)}")  # fmt: skip
    if others := [each for each in (*ours, *theirs) if each.identity != first.identity]:
        raise ZooError(
            f"{others[0].task} of {others[0].name} and {first.task} of {first.name} are not the same items, so they cannot be"
            " paired: evaluate both on the same file"
        )
    one, other = _by_seed(ours), _by_seed(theirs)
    common = sorted(one.keys() & other.keys())
    if not common and len(one) == len(other) == 1:  # two runs: of whatever seed, over items
        pairs = [(ours[0], theirs[0])]
    elif not common:
        raise ZooError(
            f"{first.name} and {theirs[0].name} have no seed in common on {first.task}: evaluate runs of the same"
        )
    else:
        pairs = [(one[seed], other[seed]) for seed in common]
    weights = first.measures[measure].weights
    if any(each.measures[measure].weights != weights for pair in pairs for each in pair):
        raise ZooError(
            f"{measure} of {first.task} is per token, and the tokenizers of {first.name} and {theirs[0].name} are not the same:"
            " compare their bits_per_byte"
        )
    rows = [
        [a - b for a, b in zip(mine.measures[measure].values, its.measures[measure].values, strict=True)]
        for mine, its in pairs
    ]
    return crossed_difference(rows, weights)


def _by_seed(outcomes: Sequence[Outcome]) -> dict[int, Outcome]:
    by_seed: dict[int, Outcome] = {}
    for outcome in outcomes:
        if outcome.seed in by_seed:
            raise ZooError(
                f"{outcome.task}: seed {outcome.seed} is there twice ({by_seed[outcome.seed].name}, {outcome.name}): give the"
                " runs of one arm"
            )
        by_seed[outcome.seed] = outcome
    return by_seed
