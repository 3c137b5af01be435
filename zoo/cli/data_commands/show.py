"""zoo-data show: what a prepared corpus holds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from zoo.cli.data_commands.described import described, folders, settings_of
from zoo.cli.printing import say, say_json, shown_log

HELP = "say what a prepared corpus holds: splits, documents, tokens, tokenizer, hashes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the corpus, and the form of the answer."""
    described(parser)
    parser.add_argument("--json", action="store_true", help="the whole manifest, for programs")


def run(arguments: argparse.Namespace) -> int:
    """Show it."""
    from zoo.data.manifest import read_manifest

    with shown_log("zoo-data"):
        for folder in folders(settings_of(arguments)):
            if arguments.json:
                say_json(read_manifest(folder).row())
            else:
                say("\n".join(lines(folder)))
    return 0


def lines(folder: Path) -> Iterator[str]:
    """A prepared corpus in words."""
    from zoo.data.manifest import read_manifest
    from zoo.data.tokenizer import TRAINED

    manifest = read_manifest(folder)
    yield f"{manifest.reading.corpus}, prepared in {folder}"
    yield f"  sources      {_several(len(manifest.sources), 'file')}, {_size(sum(s.size for s in manifest.sources))}"
    yield f"  splits       {manifest.rule}"
    for name, split in manifest.splits.items():
        documents, tokens = _several(split.documents, "document"), _several(split.tokens, "token")
        counts = f"{documents}, {tokens}, {_size(split.bytes)} of text"
        yield f"  {name:<12} {counts}, {_several(len(split.shards), 'shard')}"
    yield f"  tokenizer    {manifest.choice}, {manifest.vocab_size:,} tokens"
    yield f"  fingerprint  {manifest.fingerprint}"
    yield f"  manifest     {manifest.hash()}"
    yield from (f"  note         {note}" for note in manifest.notes)
    own = (
        f"data.vocab_size={manifest.vocab_size}"
        if manifest.choice == TRAINED
        else f"data.tokenizer='{manifest.choice}'"
    )
    yield f'  use          zoo-train --set \'data.corpus="{folder}"\' "{own}"'


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _size(count: float) -> str:
    """Bytes in words."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,.0f} bytes"
