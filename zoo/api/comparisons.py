"""Two lists of results compared: what the seeds say of the difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from zoo.api.given import Place, place
from zoo.errors import ZooError

if TYPE_CHECKING:
    from zoo.bench.store import Result
    from zoo.evaluation.outcomes import Outcome
    from zoo.generation.open_run import Run
    from zoo.runs.summary import Summary
    from zoo.statistics.difference import Difference

    Numbers = Iterable[float] | Mapping[int, float]
    Runs = Iterable[Result] | Iterable[Summary] | Iterable[Run]
    Outcomes = Outcome | Iterable[Outcome]


def results(store: Place, name: str | None = None) -> list[Result]:
    """The runs of a bench's store, all or those of a method; `baseline` is the name of plain blocks."""
    from zoo.bench.store import merged

    return [each for each in merged([place(store, "the folder of a bench")]) if name in (None, each.name)]


def compare(ours: Numbers | Runs | Outcomes, theirs: Numbers | Runs | Outcomes, measure: str = "") -> Difference:
    """Ours less theirs, with its 95 % interval (`low`, `high`) and `p`; of losses, negative is better. Print it.

    Each is a list of numbers, one per seed in the same order; a dictionary from seeds to numbers; or a list of results,
    summaries or runs, whose losses are compared. The seeds that both have are paired (Student's t of their differences);
    with fewer than two in common, or lists of different lengths, the means are compared (Welch's t). Two outcomes of
    `zoo.evaluate`, or two lists of them, one per seed, are paired item by item in the figure `measure`, with an interval
    over items and seeds.
    """
    from zoo.evaluation.outcomes import Outcome
    from zoo.evaluation.pairing import paired_outcomes

    one, other = _listed(ours), _listed(theirs)
    if not one or not other:
        raise ZooError("there is nothing to compare: both lists must have results")
    if isinstance(one, list) and isinstance(other, list) and all(isinstance(each, Outcome) for each in [*one, *other]):
        return paired_outcomes(one, other, measure)
    return _of_seeds(_by_seed(one), _by_seed(other))


def _listed(side: Any) -> list[Any] | Mapping[int, float]:
    """A list of what was given; one outcome is a list of one."""
    if isinstance(side, Mapping):
        return side
    return list(side) if isinstance(side, Iterable) and not hasattr(side, "measures") else [side]


def _of_seeds(ours: Mapping[Any, float], theirs: Mapping[Any, float]) -> Difference:
    from zoo.statistics.difference import from_bound, unpaired

    common = [seed for seed in ours if seed in theirs]
    in_order = all(isinstance(key, str) for key in (*ours, *theirs))  # lists of numbers: without seeds
    if len(common) < 2 or (in_order and len(ours) != len(theirs)):
        return unpaired(list(ours.values()), list(theirs.values()))
    return from_bound([ours[seed] - theirs[seed] for seed in common], 0.0)


def _by_seed(side: list[Any] | Mapping[int, float]) -> dict[Any, float]:
    """Losses by seed; those of a list of numbers by their place in it, as text, which is no seed."""
    if isinstance(side, Mapping):
        return {seed: _number(loss) for seed, loss in side.items()}
    losses: dict[Any, float] = {}
    for index, each in enumerate(side):
        seed, loss = _seed_and_loss(each, index)
        if seed in losses:
            raise ZooError(f"seed {seed} is there twice in one list: give the results of one arm, at one learning rate")
        losses[seed] = loss
    return losses


def _is_number(each: Any) -> bool:
    """Whether it is one: also of NumPy, or a tensor."""
    return isinstance(each, int | float) or getattr(each, "shape", None) == ()


def _number(each: Any) -> float:
    if not _is_number(each):
        raise ZooError(f"{each!r} is no number to compare")
    return float(each)


def _seed_and_loss(each: Any, index: int) -> tuple[Any, float]:
    if _is_number(each):
        return str(index), _number(each)
    held = getattr(each, "summary", each)  # a run's
    loss = getattr(held, "loss", getattr(held, "valid_loss", None))
    if loss is None or not hasattr(held, "seed"):
        raise ZooError(f"{type(each).__name__} has no loss to compare: give numbers, results, summaries or runs")
    return held.seed, float(loss)
