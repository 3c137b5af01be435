"""A corpus as a task: loss and bits per byte of its documents, each on its own."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from zoo.data.cache import Cache
from zoo.data.corpus import SPLITS, Reading, open_corpus
from zoo.data.manifest import read_manifest
from zoo.data.opening import named_folder
from zoo.data.survey import surveyed
from zoo.errors import DataError, ZooError, nearest
from zoo.evaluation.outcomes import Measure, Outcome, outcome_of
from zoo.evaluation.scoring import Row, likelihoods

if TYPE_CHECKING:
    from zoo.evaluation.subject import Subject

ALL = "all"
AT_ONCE = 256  # documents


@dataclass(frozen=True)
class CorpusTask:
    """The documents of a corpus, or of one of its splits; the end of each is predicted too, as in validation."""

    source: str
    split: str = ALL
    most: int | None = None

    def __post_init__(self) -> None:
        if self.split not in (ALL, *SPLITS):
            raise ZooError(f"there is no split {self.split}{nearest(self.split, SPLITS)}: {ALL}, {', '.join(SPLITS)}")
        if folder := named_folder(self.source):
            origin = read_manifest(folder).reading.corpus
            raise DataError(
                f"{folder} is prepared: it holds the tokens of one tokenizer, and runs have their own; name the corpus that it"
                f" was made from, {origin}"
            )

    @property
    def name(self) -> str:
        """A short name, with the split if it is one."""
        short = PurePath(self.source).stem or self.source
        return short if self.split == ALL else f"{short}/{self.split}"

    @property
    def kind(self) -> str:
        return "corpus"

    def documents(self) -> Iterator[str]:
        """The texts, in the order of the corpus."""
        corpus = open_corpus(Reading(corpus=self.source))
        if self.split == ALL:
            texts = (document.text for _, document in corpus.documents() if document.text)
            return itertools.islice(texts, self.most)
        survey = Cache(None).with_folder(lambda cache: surveyed(corpus, cache))
        number = SPLITS.index(self.split)
        if not survey.counts[self.split].documents:
            raise DataError(f"{self.source} has no {self.split} split")
        chosen = (document.text for split, document in survey.documents(corpus) if split == number and document.text)
        return itertools.islice(chosen, self.most)

    @functools.cached_property
    def identity(self) -> str:
        """What tells it from every other: all of its documents, whatever they are called."""
        digest, empty = hashlib.sha256(b"corpus"), True
        for content in map(_bytes, self.documents()):
            digest.update(b"%d\n" % len(content) + content)
            empty = False
        if empty:
            raise DataError(f"{self.source} holds no text")
        return digest.hexdigest()[:16]

    def measure(self, run: Subject) -> Outcome:
        """The run on every document."""
        nll: list[float] = []
        tokens: list[float] = []
        sizes: list[float] = []
        begin, end, waiting = run.begin, run.tokenizer.eos, self.documents()
        while texts := list(itertools.islice(waiting, AT_ONCE)):
            rows = [Row([begin, *encoded.tolist(), end]) for encoded in run.tokenizer.encode(texts)]
            for text, score in zip(texts, likelihoods(run.model, rows, run.model.max_seq_len), strict=True):
                nll.append(score.nll)
                tokens.append(float(score.tokens))
                sizes.append(float(len(_bytes(text))))
        measures = {
            "bits_per_byte": Measure("lower", tuple(each / math.log(2) for each in nll), tuple(sizes)),
            "loss": Measure("lower", tuple(nll), tuple(tokens)),
        }
        return outcome_of(run, self.name, self.kind, self.identity, measures, self._notes(run))

    def _notes(self, run: Subject) -> list[str]:
        if self.split in (ALL, "train") and self.source in run.corpora:
            return [f"the run was trained on {self.source}: name a split that it has not seen, with --split test"]
        return []


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
