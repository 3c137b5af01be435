"""The last step of a preparation: what is to be known of the shards, found out once, in one pass over them."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.data import entropy
from zoo.data.corpus import SPLITS, Corpus
from zoo.data.manifest import Manifest, Split
from zoo.data.progress import Advance, progress
from zoo.data.shards import Shard, TokenRow, token_type
from zoo.data.survey import Survey
from zoo.data.token_interface import Tokenizer
from zoo.data.tokenizer import open_tokenizer

if TYPE_CHECKING:
    import numpy as np

AT_ONCE = 1 << 23  # bytes that are looked at
COMPRESSED = 200_000  # tokens that are enough to see how well a text compresses
PACKAGES = ("transformer-zoo", "sentencepiece", "tokenizers", "tiktoken", "pyarrow")


def finish(folder: Path, corpus: Corpus, survey: Survey, spec: str, choice: str) -> Manifest:
    """The manifest of the shards in a folder; `choice`: the tokenizer that was asked for, `spec`: the one that was used."""
    tokenizer = open_tokenizer(spec)
    files = {split: sorted(folder.glob(f"{split}-*.bin")) for split in SPLITS}
    with progress(f"checking {corpus.name}", sum(f.stat().st_size for each in files.values() for f in each)) as advance:
        looked_at = {split: _look(files[split], tokenizer, advance) for split in SPLITS}
    splits = {}
    for split, (shards, frequencies) in looked_at.items():
        row = TokenRow(folder, shards, token_type(tokenizer.vocab_size), tokenizer.vocab_size)
        some = bool(frequencies.any())
        splits[split] = Split(
            documents=survey.counts[split].documents,
            tokens=len(row) - 1,
            bytes=survey.counts[split].bytes,
            piece_bytes=sum(int(n) * len(piece) for n, piece in zip(frequencies, tokenizer.pieces, strict=True) if n),
            unigram_entropy=entropy.unigram_entropy(looked_at["train"][1], frequencies) if some else None,
            compressed_bits=_compressed(row, tokenizer) if some and split != "train" else None,
            shards=shards,
        )
    return Manifest(
        reading=corpus.reading,
        root=corpus.root,
        rule=corpus.rule,
        sources=survey.sources,
        fingerprint=survey.fingerprint,
        choice=choice,
        identity=tokenizer.identity,
        vocab_size=tokenizer.vocab_size,
        eos=tokenizer.eos,
        splits=splits,
        notes=(*corpus.notes, *filter(None, (survey.skipped, _loss(tokenizer, choice)))),
        made_with=_versions(),
    )


def _loss(tokenizer: Tokenizer, name: str) -> str:
    """A sentence on what a tokenizer does to texts, by the name it was asked for with; empty if nothing."""
    if tokenizer.lossless:
        return ""
    return f"the tokenizer {name} does not keep every text as it is: bits per byte count the bytes of the original"


def _look(files: Sequence[Path], tokenizer: Tokenizer, advance: Advance) -> tuple[tuple[Shard, ...], np.ndarray]:
    """The shards of a row with their hashes, and how often each token is predicted in it."""
    import numpy as np

    kind, shards = token_type(tokenizer.vocab_size), []
    frequencies = np.zeros(tokenizer.vocab_size, np.int64)
    for file in files:
        total, tokens = hashlib.sha256(), 0
        with file.open("rb") as opened:
            while block := opened.read(AT_ONCE):
                total.update(block)
                part = np.frombuffer(block, kind)
                tokens += len(part)
                frequencies += np.bincount(part, minlength=tokenizer.vocab_size)
                advance(len(block))
        shards.append(Shard(file.name, tokens, total.hexdigest(), file.stat().st_mtime_ns))
    frequencies[tokenizer.eos] -= 1  # nothing predicts the one before the first document
    return tuple(shards), frequencies


def _compressed(row: TokenRow, tokenizer: Tokenizer) -> float:
    return entropy.compressed_bits(b"".join(tokenizer.pieces[token] for token in row.read(0, COMPRESSED)))


def _versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
