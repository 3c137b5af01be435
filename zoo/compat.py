"""What it takes to stand on fairseq2: its shared library, and every name of it that is not public."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from pathlib import Path


@functools.cache
def prepare() -> None:
    """Load the libsndfile of the soundfile wheel, without which `import fairseq2` fails; to be called before it."""
    spec = importlib.util.find_spec("_soundfile_data")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for library in sorted(Path(folder).glob("libsndfile*")):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            return
    # A source build of soundfile carries no library and links against the system's: fairseq2 finds that one itself.
