"""From what `data.corpus` names to prepared corpora, made now where they are not there."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.cache import Cache, held
from zoo.data.corpus import SPLITS, Corpus, Reading, open_corpus
from zoo.data.manifest import TOKENIZER, is_prepared, read_manifest
from zoo.data.mixture import shares
from zoo.data.prepare import Choice, prepared, prepared_folder
from zoo.data.prepared import Prepared
from zoo.data.sentencepiece_model import SAMPLE, SEGMENT, train
from zoo.data.survey import Survey, surveyed
from zoo.data.tokenizer import TRAINED, open_tokenizer, padding
from zoo.errors import DataError
from zoo.system.files import replace_file
from zoo.system.regular_files import possible

Weights = Mapping[str, float]  # corpus → its weight in a mixture


class Part(NamedTuple):
    """A corpus of a mixture, or the only one."""

    prepared: Prepared
    share: float  # of the tokens that are trained on


def open_parts(
    corpus: str | Weights,
    reading: Reading,
    choice: Choice,
    store: Cache,
    pad_vocab: int,
    into: Path | None = None,
    workers: int | None = None,
) -> list[Part]:
    """The corpora that are trained on, prepared. Of `reading` everything holds but the corpus.

    into: the folder of a single corpus, else one in the cache; workers: processes that encode, else one per core.
    """
    pad = padding(choice.spec, pad_vocab)
    if isinstance(corpus, str):
        return [Part(open_one(dataclasses.replace(reading, corpus=corpus), choice, store, pad, into, workers), 1.0)]
    parts = shares(corpus)
    readings = [dataclasses.replace(reading, corpus=name) for name in parts]
    if choice.spec == TRAINED and len(parts) > 1:
        if folder := next(filter(None, map(named_folder, parts)), None):
            raise DataError(
                f"{folder} is prepared, so its mixture cannot have a tokenizer of its own: set data.tokenizer to"
                f" {str(folder / TOKENIZER)!r}"
            )
        choice = Choice(str(store.with_folder(lambda cache: _common_tokenizer(readings, parts, choice, cache))))
    opened = [
        Part(open_one(each, choice, store, pad), share) for each, share in zip(readings, parts.values(), strict=True)
    ]
    if len({part.prepared.tokenizer.identity for part in opened}) > 1:
        raise DataError("the corpora of data.corpus are prepared with several tokenizers: set data.tokenizer to one")
    return opened


def open_one(
    reading: Reading, choice: Choice, store: Cache, pad: int = 1, into: Path | None = None, workers: int | None = None
) -> Prepared:
    """A corpus, prepared; or the prepared folder that it names."""
    if folder := named_folder(reading.corpus):
        return _checked(Prepared(folder, reading.corpus, pad), choice)
    corpus = open_corpus(reading)
    folder = store.with_folder(lambda cache: prepared(corpus, choice, cache, into, workers))
    return Prepared(folder, reading.corpus, pad)


def cached_folder(reading: Reading, choice: Choice, store: Cache) -> Path | None:
    """The folder of the cache that a corpus was prepared in, if it was, whatever became of it since."""
    try:
        folder = prepared_folder(store.path(), open_corpus(reading), choice)
    except OSError:
        return None
    return folder if is_prepared(folder) else None


def named_folder(corpus: str) -> Path | None:
    """The prepared folder that a text names, if it does."""
    if not corpus or not possible(corpus):
        return None
    try:
        folder = Path(corpus).expanduser()
        return folder if is_prepared(folder) else None
    except (OSError, RuntimeError):
        return None


def _checked(opened: Prepared, choice: Choice) -> Prepared:
    """Refuse a folder whose vocabulary is not the one that a model would be built and counted for."""
    size, folder = opened.tokenizer.vocab_size, opened.folder
    if choice.spec == TRAINED and opened.manifest.choice != TRAINED:
        raise DataError(
            f"{folder} was prepared with another tokenizer: set data.tokenizer to {opened.manifest.choice!r}"
        )
    if choice.spec == TRAINED and size != choice.vocab_size:
        raise DataError(f"{folder} was prepared with a vocabulary of {size}: set data.vocab_size to {size}")
    if choice.spec != TRAINED and open_tokenizer(choice.spec).identity != opened.manifest.identity:
        raise DataError(f"{folder} was prepared with another tokenizer than {choice.spec!r}: prepare it again")
    return opened


def mixture_fingerprint(fingerprints: list[str], weights: list[float]) -> str:
    """What identifies corpora and their shares."""
    if len(fingerprints) == 1:
        return fingerprints[0]
    return hashlib.sha256(json.dumps([fingerprints, [round(w, 9) for w in weights]]).encode()).hexdigest()


def configured_fingerprint(settings: Mapping[str, Any]) -> str:
    """The fingerprint of the corpus that a configuration names; it is asked for once per process.

    The fields of `Reading` are what a corpus is read with: a new one counts here by itself.
    """
    reading = {field.name: settings[f"data.{field.name}"] for field in dataclasses.fields(Reading)}
    return _fingerprint_of(json.dumps(reading), settings.get("data.cache"))


@functools.cache
def _fingerprint_of(reading: str, cache: str | None) -> str:
    fields = json.loads(reading)
    parts = {fields["corpus"]: 1.0} if isinstance(fields["corpus"], str) else shares(fields["corpus"])
    store, fingerprints = Cache(cache), []
    for name in parts:
        if folder := named_folder(name):
            fingerprints.append(read_manifest(folder).fingerprint)
            continue
        corpus = open_corpus(Reading(**{**fields, "corpus": name}))
        fingerprints.append(store.with_folder(functools.partial(surveyed, corpus)).fingerprint)
    return mixture_fingerprint(fingerprints, list(parts.values()))


def _common_tokenizer(readings: list[Reading], parts: Weights, choice: Choice, cache: Path) -> Path:
    """One tokenizer for all corpora, trained on lines of each by its share."""
    corpora = [open_corpus(reading) for reading in readings]
    surveys = [surveyed(corpus, cache) for corpus in corpora]
    key = repr((choice.key(), [survey.fingerprint for survey in surveys], list(parts.values())))
    path = cache / "tokenizers" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.model"
    with held(path.with_suffix(".lock"), "a tokenizer"):
        if not path.exists():
            sizes = [survey.counts["train"].characters for survey in surveys]
            most = min(SAMPLE, *(size / share for size, share in zip(sizes, parts.values(), strict=True)))
            sampled = (
                _sample(corpus, survey, max(1, round(size / (share * most))))
                for corpus, survey, size, share in zip(corpora, surveys, sizes, parts.values(), strict=True)
            )
            replace_file(path, train(itertools.chain.from_iterable(sampled), choice.vocab_size, 0))
    return path


def _sample(corpus: Corpus, survey: Survey, step: int) -> Iterator[str]:
    """Every n-th line of the training split."""
    number = SPLITS.index("train")
    lines = (
        line
        for split, document in survey.documents(corpus)
        if split == number
        for line in SEGMENT.findall(document.text)
    )
    return itertools.islice(lines, 0, None, step)
