"""Corpora with a name, fetched to this computer: into a folder that appears only when it is whole."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from zoo.data import hub
from zoo.data.classic_books import make_books
from zoo.data.documents import Broken, listing
from zoo.data.known_corpora import (
    BOOKS,
    BOOKS_COMMIT,
    BOOKS_URL,
    INSTALLED,
    KNOWN,
    WIKITEXT,
    WIKITEXT_HUB,
    copy_in,
    corpora_folder,
    different_files,
)
from zoo.data.tables import read_parquet
from zoo.errors import DataError, nearest

Make = Callable[[str, Path, Path], None]  # where it is taken from, the folder to write to, a folder to work in


def fetch(name: str, source: str | None = None, into: Path | None = None) -> tuple[Path, list[str]]:
    """The folder of a corpus, fetched if it is not there, and what to say about it.

    source: another place to take it from, such as a clone or a folder of files that someone copied here.
    """
    if name.startswith(hub.PREFIX):
        if source or into:
            raise DataError(f"{name} is kept where huggingface_hub keeps it ($HF_HOME): leave out --from and --into")
        return hub.fetched(name), []
    if name == INSTALLED:
        raise DataError(f"{name} comes with the install: there is nothing to fetch")
    if name not in MAKERS:
        known = [each for each in KNOWN if each != INSTALLED]
        raise DataError(f"there is no corpus {name}{nearest(name, known)}: name {', '.join(known)}, or hf:owner/name")
    corpora = into or corpora_folder()
    folder = copy_in(corpora, name) or corpora / name
    if folder.exists():
        return folder, [f"{folder} is there already: remove it to fetch it again", *_differences(folder, name)]
    default, make = MAKERS[name]
    with _whole_or_nothing(folder, name) as (draft, work):
        make(source or default, draft, work)
        notes = _differences(draft, name)
    return folder, notes


def _differences(folder: Path, name: str) -> list[str]:
    if not (different := different_files(folder, name)):
        return []
    return [
        f"not the texts that results on {name} were measured on: {listing(different)}; their figures do not compare"
    ]


@contextlib.contextmanager
def _whole_or_nothing(folder: Path, name: str) -> Iterator[tuple[Path, Path]]:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as temporary:
            draft, work = Path(temporary, name), Path(temporary, "work")
            draft.mkdir()
            work.mkdir()
            yield draft, work
            draft.rename(folder)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be written: {error.strerror or error}; name another folder with --into, or in $ZOO_DATA"
        ) from error


def _make_books(source: str, draft: Path, work: Path) -> None:
    try:
        make_books(source, BOOKS_COMMIT, draft, work)
    except DataError as error:
        raise DataError(
            f"{BOOKS} cannot be fetched from {source} ({error}): on a computer with a network, run git clone --bare"
            f" {BOOKS_URL}, copy the folder here, and run zoo-data get {BOOKS} --from that-folder; or set $ZOO_DATA to a"
            " folder that has the Parquet files in a folder of that name"
        ) from error


def _make_wikitext(source: str, draft: Path, work: Path) -> None:
    """The files as they were before the hub made a record of each line: there, a line with a space alone is empty."""
    folder = _hub_files(source) if source.startswith(hub.PREFIX) else Path(source).expanduser()
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder} with the files of {WIKITEXT_HUB}")
    for split, theirs in (("train", "train"), ("valid", "validation"), ("test", "test")):
        files = sorted(path for path in folder.rglob("*.parquet") if theirs in path.relative_to(folder).as_posix())
        if not files:
            raise DataError(f"{folder} has no Parquet file of the split {theirs}: fetch {WIKITEXT_HUB} again")
        with (draft / f"{split}.txt").open("w", encoding="utf-8", newline="") as text:
            for line in (line for file in files for line in read_parquet(file, "text")):
                if isinstance(line, Broken):
                    raise DataError(line.sentence)
                text.write(line or " \n")
    shutil.rmtree(work, ignore_errors=True)


def _hub_files(source: str) -> Path:
    try:
        return hub.fetched(source)
    except DataError as error:
        raise DataError(f"{error}; of {WIKITEXT}, run zoo-data get {WIKITEXT} --from that folder") from error


MAKERS: dict[str, tuple[str, Make]] = {BOOKS: (BOOKS_URL, _make_books), WIKITEXT: (WIKITEXT_HUB, _make_wikitext)}
