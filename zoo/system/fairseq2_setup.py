"""Make `import fairseq2` possible, and cheap: importing this module loads the shared library that it needs."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path


def _load_libsndfile() -> None:
    """Load the libsndfile of the soundfile wheel, without which `import fairseq2` fails."""
    spec = importlib.util.find_spec("_soundfile_data")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for library in sorted(Path(folder).glob("libsndfile*")):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            return
    # A source build of soundfile carries no library and links against the system's: fairseq2 finds that one itself.


def load_alone(name: str) -> None:
    """Import a module of fairseq2 without its siblings; an import of it after this one finds it.

    The package around `fairseq2.models.clm` also imports model families, hubs, FSDP and huggingface_hub: 400 modules,
    0.3 CPU-seconds and 20 MB at the start of every run. The module is the same, under the same name, for all importers.

    (A lazy package, by importlib's LazyLoader, was tried: `inspect` looks at every module, which loaded it in the middle of
    an import of torch's that it needs.)
    """
    import fairseq2

    package, _, _ = name.rpartition(".")
    file = Path(fairseq2.__path__[0], *name.split(".")[1:]).with_suffix(".py")
    if name in sys.modules or package in sys.modules or not file.is_file():
        return  # an ordinary import costs nothing more, or is the only one possible
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


_load_libsndfile()
