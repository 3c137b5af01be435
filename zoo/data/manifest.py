"""The page that describes a prepared folder: what it was made of, and what it holds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.data.corpus import SPLITS, Reading
from zoo.data.shards import Shard
from zoo.data.source_files import Source, file_hash
from zoo.data.token_interface import Tokenizer
from zoo.data.tokenizer import open_tokenizer
from zoo.errors import DataError
from zoo.system.files import replace_file
from zoo.system.regular_files import parse_object, read_regular

FILE = "manifest.json"
TOKENIZER = "tokenizer.model"  # a copy that needs nothing beside it, of whatever kind
FIRST_SHARD = f"{SPLITS[0]}-00000.bin"
VERSION = 1  # of the format


@dataclass(frozen=True)
class Split:
    """What a split holds, and what can be said of it without any model."""

    documents: int
    tokens: int  # that are predicted: all, and the end of each document
    bytes: int  # of the text, in UTF-8
    piece_bytes: int  # of what its tokens write: the same, unless the tokenizer loses something
    unigram_entropy: float | None  # nats per token, if each came with its frequency in train
    compressed_bits: float | None  # per byte, of its beginning; None for train
    shards: tuple[Shard, ...]


@dataclass(frozen=True)
class Manifest:
    """A prepared corpus."""

    reading: Reading
    root: str  # where the corpus was
    rule: str  # how it was split
    sources: tuple[Source, ...]
    fingerprint: str  # of every document and the split it is in
    choice: str  # the tokenizer that was asked for
    identity: str  # of the tokenizer
    vocab_size: int
    eos: int
    splits: dict[str, Split]
    notes: tuple[str, ...]
    made_with: dict[str, str]

    def row(self) -> dict[str, Any]:
        """Everything as JSON, with its own hash."""
        row = {
            "format": VERSION,
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(self)},
            "reading": dataclasses.asdict(self.reading),
            "sources": [source._asdict() for source in self.sources],
            "splits": {name: _split_row(split) for name, split in self.splits.items()},
        }
        return {**row, "sha256": self.hash(), "figures_sha256": self.figures_hash()}

    def hash(self) -> str:
        """What identifies the folder's content, wherever and whenever its files were written."""
        content = {
            "fingerprint": self.fingerprint,
            "tokenizer": self.identity,
            "shards": {name: [s.sha256 for s in split.shards] for name, split in self.splits.items()},
            "counts": {name: [s.documents, s.tokens, s.bytes] for name, s in self.splits.items()},
        }
        return _hash_of(content)

    def figures_hash(self) -> str:
        """The hash of what was computed from the content; apart from `hash`, which must not change with the arithmetic."""
        return _hash_of(
            {name: [s.piece_bytes, s.unigram_entropy, s.compressed_bits] for name, s in self.splits.items()}
        )


def _hash_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _split_row(split: Split) -> dict[str, Any]:
    return {**dataclasses.asdict(split), "shards": [shard._asdict() for shard in split.shards]}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the page, as a whole or not at all."""
    replace_file(folder / FILE, (json.dumps(manifest.row(), indent=1) + "\n").encode())


def is_prepared(path: Path) -> bool:
    """Whether a folder was made by `zoo-data prepare`: a page of this name alone could be anyone's."""
    return (path / FILE).is_file() and ((path / TOKENIZER).is_file() or (path / FIRST_SHARD).is_file())


def read_manifest(folder: Path) -> Manifest:
    """The page of a folder; a `DataError` for what is none or does not agree with itself."""
    file = folder / FILE
    try:
        row = parse_object(read_regular(file))
        if row.get("format") != VERSION:
            raise DataError(
                f"{file} is of format {row.get('format')!r}, and this version reads {VERSION}: prepare it again"
            )
        manifest = _parsed(row)
        if manifest.hash() != row["sha256"]:
            raise ValueError("its hash is not that of its content")
        if row.get("figures_sha256", manifest.figures_hash()) != manifest.figures_hash():  # older pages have none
            raise ValueError("the hash of its figures is not theirs")
        return manifest
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise DataError(f"{file} is damaged ({error}): prepare the corpus again") from error


def _parsed(row: dict[str, Any]) -> Manifest:
    splits = {}
    for name in SPLITS:
        split = dict(row["splits"][name])
        split["shards"] = tuple(Shard(**shard) for shard in split["shards"])
        if any(Path(shard.name).name != shard.name or shard.tokens < 0 for shard in split["shards"]):
            raise ValueError("a shard is not a file of the folder")
        splits[name] = Split(**split)
    names = [field.name for field in dataclasses.fields(Manifest)]
    made: dict[str, Any] = {name: row[name] for name in names} | {
        "reading": Reading(**row["reading"]),
        "sources": tuple(map(Source.of, row["sources"])),
        "notes": tuple(row["notes"]),
        "splits": splits,
    }
    return Manifest(**made)


def own_tokenizer(folder: Path, manifest: Manifest, pad: int = 1) -> Tokenizer:
    """The tokenizer of a prepared folder, which must be the one it was encoded with."""
    tokenizer = open_tokenizer(str(folder / TOKENIZER), pad)
    own = (tokenizer.identity, tokenizer.vocab_size, tokenizer.eos)
    if own != (manifest.identity, manifest.vocab_size, manifest.eos):
        raise DataError(f"{folder / TOKENIZER} is not the tokenizer that {folder} was encoded with: prepare it again")
    return tokenizer


def damaged_shards(folder: Path, manifest: Manifest, everything: bool = False) -> list[str]:
    """The shards that are not as they were written: by size and time or, of those that differ in time, by content.

    everything: by content, all of them.
    """
    damaged = []
    width = 2 if manifest.vocab_size <= 1 << 16 else 4
    for split in manifest.splits.values():
        for shard in split.shards:
            path = folder / shard.name
            try:
                state = path.stat()
                sound = path.is_file() and state.st_size == shard.tokens * width
                if sound and (everything or state.st_mtime_ns != shard.mtime):
                    sound = file_hash(path) == shard.sha256
            except (OSError, DataError):
                sound = False
            if not sound:
                damaged.append(shard.name)
    return damaged
