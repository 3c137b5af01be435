"""Tasks: what is asked of a run, and the figures that come of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from zoo.errors import ZooError, nearest
from zoo.evaluation.items import READERS, Item, identity, read_items
from zoo.evaluation.outcomes import Measure, Outcome, outcome_of

if TYPE_CHECKING:
    from zoo.evaluation.scoring import Likelihood
    from zoo.evaluation.subject import Subject

KINDS = ("corpus", *READERS)


class Task(Protocol):
    """Something that a run can be measured on."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def identity(self) -> str: ...
    def measure(self, run: Subject) -> Outcome: ...


def open_task(kind: str, source: str, split: str = "all", most: int | None = None) -> Task:
    """The task of a kind that a file holds; of a corpus, what `data.corpus` takes."""
    if kind not in KINDS:
        raise ZooError(f"there is no kind of task {kind}{nearest(kind, KINDS)}; there are {', '.join(KINDS)}")
    if most is not None and most < 1:
        raise ZooError(f"the number of items, {most}, must be at least 1")
    if kind == "corpus":
        from zoo.evaluation.corpus_task import CorpusTask

        return CorpusTask(source, split, most)
    path = Path(source).expanduser()
    items = read_items(kind, path, most)
    return ItemTask(path.stem, kind, tuple(items), identity(kind, items))


@dataclass(frozen=True)
class ItemTask:
    """A task of items: each has a context and the texts that may follow it."""

    name: str
    kind: str
    items: tuple[Item, ...]
    identity: str

    def measure(self, run: Subject) -> Outcome:
        """The run on every item."""
        from zoo.evaluation.scoring import continuation, likelihoods

        length = run.model.max_seq_len
        rows = [continuation(run, item.context, ending) for item in self.items for ending in item.endings]
        scores = iter(likelihoods(run.model, rows, length))
        of_items = [[next(scores) for _ in item.endings] for item in self.items]
        long = sum(len(row.tokens) - 1 > length for row in rows)
        notes = (f"{long:,} of {len(rows):,} texts are longer than {length:,} tokens: their beginnings are not seen",)
        measures = FIGURES[self.kind](self.items, of_items)
        return outcome_of(run, self.name, self.kind, self.identity, measures, notes if long else ())


Scores = Sequence[Sequence["Likelihood"]]  # of every item, of every ending


def pair_measures(items: Sequence[Item], scores: Scores) -> dict[str, Measure]:
    """Minimal pairs: how often the right sentence is likelier, and by how many nats."""
    margins = tuple(bad.nll - good.nll for good, bad in scores)
    return {
        "accuracy": Measure("higher", tuple(float(margin > 0) for margin in margins)),
        "margin": Measure("higher", margins),
    }


def cloze_measures(items: Sequence[Item], scores: Scores) -> dict[str, Measure]:
    """Cloze: nats per word that is to be told, and how often it is what the model would write."""
    return {
        "loss": Measure("lower", tuple(word.nll for (word,) in scores)),
        "accuracy": Measure("higher", tuple(float(word.greedy) for (word,) in scores)),
    }


def choice_measures(items: Sequence[Item], scores: Scores) -> dict[str, Measure]:
    """Multiple choice: bits per byte of the right answer, and how often it is the likeliest per byte."""
    sizes = [[len(ending.encode()) for ending in item.endings] for item in items]
    bits = [[score.nll / math.log(2) for score in of_item] for of_item in scores]
    hits = []
    for item, of_item, size in zip(items, bits, sizes, strict=True):
        per_byte = [each / count for each, count in zip(of_item, size, strict=True)]
        hits.append(float(all(per_byte[item.right] < each for i, each in enumerate(per_byte) if i != item.right)))
    return {
        "bits_per_byte": Measure(
            "lower",
            tuple(of_item[item.right] for item, of_item in zip(items, bits, strict=True)),
            tuple(float(size[item.right]) for item, size in zip(items, sizes, strict=True)),
        ),
        "accuracy": Measure("higher", tuple(hits)),
    }


FIGURES: dict[str, Callable[[Sequence[Item], Scores], dict[str, Measure]]] = {
    "pairs": pair_measures,
    "cloze": cloze_measures,
    "choices": choice_measures,
}
