"""A corpus prepared once for all runs: documents → splits → tokenizer → shards of tokens, with a manifest.

Everything is written in a draft beside the folder, which takes its name in the end. A preparation that was interrupted
goes on from the draft; a journal in it says how far the shards are good.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from zoo.data import source_files
from zoo.data.cache import held
from zoo.data.corpus import SPLITS, Corpus
from zoo.data.draft import JOURNAL, PLAN, check_replaceable, draft_of, goes_on, put_in_place
from zoo.data.encoding import chunks, encode_all
from zoo.data.finish import finish
from zoo.data.manifest import (
    TOKENIZER,
    Manifest,
    damaged_shards,
    is_prepared,
    own_tokenizer,
    read_manifest,
    write_manifest,
)
from zoo.data.progress import progress
from zoo.data.sentencepiece_model import SAMPLE, SETTINGS, train
from zoo.data.shards import RowWriter, token_type
from zoo.data.survey import Survey, surveyed
from zoo.data.tokenizer import TRAINED, open_tokenizer
from zoo.errors import DataError
from zoo.system.files import replace_file
from zoo.system.regular_files import parse_object, read_regular

log = logging.getLogger(__name__)

PAUSE = 5.0  # seconds between entries of the journal


@dataclass(frozen=True)
class Choice:
    """Which tokenizer a corpus is encoded with."""

    spec: str = TRAINED  # or the path or name of one that exists
    vocab_size: int = 4096  # of one that is trained

    def key(self) -> tuple[Any, ...]:
        """What decides on the tokens, beside the text."""
        if self.spec != TRAINED:
            return (open_tokenizer(self.spec).identity,)
        import sentencepiece

        return (self.spec, self.vocab_size, *SETTINGS.items(), SAMPLE, sentencepiece.__version__)


def prepared(corpus: Corpus, choice: Choice, cache: Path, into: Path | None = None, workers: int | None = None) -> Path:
    """The folder of the prepared corpus, in the cache or where it shall be; it is made unless it is there."""
    folder = into.absolute() if into else prepared_folder(cache, corpus, choice)
    if _is_current(folder, corpus, choice, may_write=False):
        return folder
    with held(folder.with_name(folder.name + ".lock"), corpus.name):
        if not _is_current(folder, corpus, choice, may_write=True):
            _prepare(folder, corpus, choice, cache, os.cpu_count() or 1 if workers is None else workers)
    return folder


def prepared_folder(cache: Path, corpus: Corpus, choice: Choice) -> Path:
    """The folder in the cache for a corpus: the same one for the same place, read and encoded in the same way."""
    key = repr((asdict(corpus.reading), corpus.root, corpus.rule, choice.key()))
    word = "".join(c if c.isalnum() else "-" for c in Path(corpus.name).name)[:40]
    return cache / "prepared" / f"{word}-{hashlib.sha256(key.encode()).hexdigest()[:24]}"


def _is_current(folder: Path, corpus: Corpus, choice: Choice, may_write: bool) -> bool:
    """Whether the folder is whole and of the files as they are now; times alone may have changed, and are noted."""
    if not is_prepared(folder):
        return False
    try:
        manifest = read_manifest(folder)
    except DataError as error:
        log.info("%s; preparing it again", error)
        return False
    if not _is_of(manifest, corpus, choice):
        return False
    now = source_files.seen(corpus.files)
    if not source_files.same_times(now, manifest.sources):
        if not may_write or not source_files.may_be_same(now, manifest.sources):
            return False
        now = source_files.hashed(corpus.files, corpus.name)
        if not source_files.same_content(now, manifest.sources):
            return False
        manifest = replace(manifest, sources=now)
        write_manifest(folder, manifest)
    if damaged := damaged_shards(folder, manifest):
        log.info("%s of %s damaged: preparing it again", ", ".join(damaged), folder)
        return False
    return _tokenizer_is_there(folder, manifest)


def _tokenizer_is_there(folder: Path, manifest: Manifest) -> bool:
    try:
        return own_tokenizer(folder, manifest).identity == manifest.identity
    except DataError:
        return False


def _is_of(manifest: Manifest, corpus: Corpus, choice: Choice) -> bool:
    """Whether a manifest is of this corpus, read and encoded like this: a folder that was named could be of any."""
    return (
        (manifest.reading, manifest.root, manifest.rule) == (corpus.reading, corpus.root, corpus.rule)
        and (manifest.choice == TRAINED) == (choice.spec == TRAINED)
        and (
            manifest.vocab_size == choice.vocab_size
            if choice.spec == TRAINED
            else manifest.identity == open_tokenizer(choice.spec).identity
        )
    )


def _prepare(folder: Path, corpus: Corpus, choice: Choice, cache: Path, workers: int) -> None:
    check_replaceable(folder)
    survey = surveyed(corpus, cache)
    draft = draft_of(folder)
    plan = {
        "reading": asdict(corpus.reading),
        "rule": corpus.rule,
        "tokenizer": [repr(part) for part in choice.key()],
        "fingerprint": survey.fingerprint,
    }
    if not goes_on(draft, plan):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        replace_file(draft / PLAN, json.dumps(plan).encode())
    spec = _tokenizer(draft, corpus, survey, choice)
    _encode(draft, corpus, survey, spec, workers)
    source_files.check_unchanged(corpus.files, survey.sources)
    write_manifest(draft, finish(draft, corpus, survey, spec, choice.spec))
    put_in_place(draft, folder)


def _tokenizer(draft: Path, corpus: Corpus, survey: Survey, choice: Choice) -> str:
    """The path of the tokenizer in the draft: trained now, or a copy of one that was given."""
    file = draft / TOKENIZER
    if not file.exists():
        if choice.spec == TRAINED:
            log.info("training a tokenizer with %s pieces on %s", f"{choice.vocab_size:,}", corpus.name)
            texts, characters = _training_texts(corpus, survey), survey.counts["train"].characters
            replace_file(file, train(texts, choice.vocab_size, characters))
        else:
            replace_file(file, open_tokenizer(choice.spec).content)
    return str(file)


def _training_texts(corpus: Corpus, survey: Survey) -> Iterator[str]:
    train_split = SPLITS.index("train")
    return (document.text for split, document in survey.documents(corpus) if split == train_split)


def _encode(draft: Path, corpus: Corpus, survey: Survey, spec: str, workers: int) -> None:
    """Write the shards of all splits, from where the journal stands."""
    import numpy as np

    tokenizer = open_tokenizer(spec)
    kind = token_type(tokenizer.vocab_size)
    done, lengths = _journal(draft, kind.itemsize)
    if done:
        log.info("going on with %s after %s documents", corpus.name, f"{done:,}")
    total = sum(counts.bytes for counts in survey.counts.values())
    documents = itertools.islice(survey.documents(corpus), done, None)
    lists = chunks(documents, lambda each: each[1].text)
    writers = [RowWriter(draft, split, kind, lengths[i]) for i, split in enumerate(SPLITS)]
    with writers[0], writers[1], writers[2], progress(f"encoding {corpus.name}", total) as advance:
        for writer in writers:
            if writer.length == 0:
                writer.append(np.array([tokenizer.eos], kind))
        noted = time.monotonic()
        for items, encoded in encode_all(lists, lambda each: each[1].text, spec, total, workers):
            of_tokens = np.repeat(np.array([split for split, _ in items], np.uint8), encoded.counts)
            for number, writer in enumerate(writers):
                writer.append(encoded.tokens[of_tokens == number])
            done += len(items)
            advance(sum(len(document.text.encode()) for _, document in items))
            if time.monotonic() - noted > PAUSE:
                _note(draft, done, writers)
                noted = time.monotonic()
    _note(draft, done, writers)


def _note(draft: Path, documents: int, writers: list[RowWriter]) -> None:
    """Write down how far the shards are good."""
    for writer in writers:
        writer.flush()
    row = {"documents": documents, "lengths": [writer.length for writer in writers]}
    replace_file(draft / JOURNAL, json.dumps(row).encode())


def _journal(draft: Path, width: int) -> tuple[int, list[int]]:
    """How many documents are in the shards, and how long the rows of the splits are; none if the shards are shorter.

    width: bytes per token.
    """
    try:
        row = parse_object(read_regular(draft / JOURNAL))
        lengths = [int(row["lengths"][number]) for number in range(len(SPLITS))]
        for split, length in zip(SPLITS, lengths, strict=True):
            if sum(shard.stat().st_size for shard in draft.glob(f"{split}-*.bin")) < length * width:
                raise ValueError("a shard is gone, or cut")
        return int(row["documents"]), lengths
    except (OSError, ValueError, TypeError, LookupError):
        return 0, [0] * len(SPLITS)
