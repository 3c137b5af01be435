"""Every byte of a prepared corpus, and of the files it was made from, against the manifest."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

from zoo.data import source_files
from zoo.data.corpus import Corpus, open_corpus
from zoo.data.manifest import Manifest, damaged_shards, own_tokenizer, read_manifest
from zoo.errors import DataError


class Findings(NamedTuple):
    """The files that are not as the manifest says."""

    damaged: list[str]  # files of the folder
    changed: list[str]  # files it was made from
    unchecked: str = ""  # why the files it was made from were not checked


def verify(folder: Path) -> Findings:
    """Read everything, and compare."""
    manifest = read_manifest(folder)
    damaged = damaged_shards(folder, manifest, everything=True)
    try:
        own_tokenizer(folder, manifest)
    except DataError as error:
        damaged.append(str(error))
    try:
        corpus = _corpus(manifest)
    except DataError as error:
        return Findings(damaged, [], str(error))
    now = {source.name: source for source in source_files.hashed(corpus.files, corpus.name)}
    before = {source.name: source for source in manifest.sources}
    same = {name for name in now.keys() & before.keys() if now[name].sha256 == before[name].sha256}
    return Findings(damaged, sorted((now.keys() | before.keys()) - same))


def _corpus(manifest: Manifest) -> Corpus:
    """The files as they are now: where the reading names them, or where they were."""
    try:
        corpus = open_corpus(manifest.reading)
    except DataError:
        corpus = None
    if corpus is None or corpus.root != manifest.root:  # the process stands elsewhere
        corpus = open_corpus(dataclasses.replace(manifest.reading, corpus=manifest.root))
    return corpus
