"""How many tokens a configuration has to train on: counted where its corpus is prepared, else estimated from the bytes.

An estimate takes a survey of the corpus, which is kept in the cache, and encodes no more than a sample.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from zoo.data.cache import Cache
from zoo.data.corpus import SPLITS, Corpus, Reading, open_corpus
from zoo.data.manifest import Manifest, read_manifest
from zoo.data.mixture import shares
from zoo.data.opening import cached_folder, named_folder
from zoo.data.prepare import Choice
from zoo.data.survey import Survey, surveyed
from zoo.data.tokenizer import TRAINED, open_tokenizer
from zoo.errors import DataError

SAMPLE_DOCUMENTS, SAMPLE_CHARACTERS = 64, 1 << 14  # at most so many, and of each at most so much


class TrainingSize(NamedTuple):
    """The training split of one corpus."""

    corpus: str
    share: float  # of the tokens that are trained on
    tokens: int
    counted: bool  # not estimated


def training_sizes(settings: Mapping[str, Any]) -> list[TrainingSize]:
    """The training splits of the corpora that a configuration names."""
    fields = {field.name: settings[f"data.{field.name}"] for field in dataclasses.fields(Reading)}
    named = fields.pop("corpus")
    parts = {named: 1.0} if isinstance(named, str) else shares(named)
    choice = Choice(settings["data.tokenizer"], settings["data.vocab_size"])
    store = Cache(settings.get("data.cache"))
    has_common_tokenizer = len(parts) > 1 and choice.spec == TRAINED
    sizes = []
    for name, share in parts.items():
        tokens, counted = _tokens(Reading(corpus=name, **fields), choice, store)
        sizes.append(TrainingSize(name, share, tokens, counted and not has_common_tokenizer))
    return sizes


def _tokens(reading: Reading, choice: Choice, store: Cache) -> tuple[int, bool]:
    """The tokens of a corpus to train on, and whether they were counted."""
    if folder := named_folder(reading.corpus):
        return read_manifest(folder).splits["train"].tokens, True
    corpus = open_corpus(reading)
    survey = store.with_folder(functools.partial(surveyed, corpus))
    if manifest := _manifest(reading, choice, store, survey):
        return manifest.splits["train"].tokens, True
    counts = survey.counts["train"]
    return round(counts.bytes / _bytes_per_token(corpus, survey, choice)) + counts.documents, False


def _manifest(reading: Reading, choice: Choice, store: Cache, survey: Survey) -> Manifest | None:
    """What the cache has of this corpus as it is now; None if it was not prepared, or has changed since."""
    try:
        folder = cached_folder(reading, choice, store)
        manifest = read_manifest(folder) if folder else None
    except DataError:
        return None
    return manifest if manifest and manifest.fingerprint == survey.fingerprint else None


def _bytes_per_token(corpus: Corpus, survey: Survey, choice: Choice) -> float:
    """How many bytes of text a token stands for, by a sample; of a tokenizer that is yet to be trained, by its vocabulary."""
    if choice.spec == TRAINED:
        return trained_bytes_per_token(choice.vocab_size)
    train = SPLITS.index("train")
    documents = (document.text for split, document in survey.documents(corpus) if split == train)
    texts = [text[:SAMPLE_CHARACTERS] for text in itertools.islice(documents, SAMPLE_DOCUMENTS)]
    tokens = sum(map(len, open_tokenizer(choice.spec).encode(texts)))
    return sum(len(text.encode()) for text in texts) / max(1, tokens)


def trained_bytes_per_token(vocab_size: int) -> float:
    """Bytes per token of a BPE vocabulary that is trained on English: 2.1 with 512 pieces, 3.1 with 2048, 4.5 at most."""
    return min(4.5, max(1.0, 0.5 * math.log2(vocab_size) - 2.4))
