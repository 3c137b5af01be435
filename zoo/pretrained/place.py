"""Where the files of a checkpoint are: in a folder, or on the Hugging Face hub, from which they are fetched once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from zoo.errors import SettingError
from zoo.system.regular_files import possible

KEY = "model.start_from"
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
SMALL = ("config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model")
WEIGHTS = ("*.safetensors", "*.safetensors.index.json")


def located(checkpoint: str, patterns: tuple[str, ...] = SMALL) -> Path:
    """The folder of a checkpoint, given by its path or its id on the hub; of the latter, files of these patterns are there."""
    if not possible(checkpoint):
        raise SettingError(KEY, f" = {checkpoint!r} cannot be the name of a folder")
    path = Path(checkpoint).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise SettingError(KEY, f" = {checkpoint!r} is a file: name the folder that config.json and the weights are in")
    if not HUB_ID.fullmatch(checkpoint):
        raise SettingError(KEY, f" = {checkpoint!r}: there is no such folder")
    return _fetched(checkpoint, patterns)


def _fetched(hub_id: str, patterns: tuple[str, ...]) -> Path:
    hub = _package(hub_id)

    def snapshot(offline: bool) -> Path:
        return Path(hub.snapshot_download(hub_id, allow_patterns=list(patterns), local_files_only=offline))

    try:
        folder = snapshot(offline=True)
        if any(any(folder.glob(pattern)) for pattern in patterns):
            return folder
    except (OSError, ValueError):
        pass  # not there yet
    try:
        return snapshot(offline=False)
    except (OSError, ValueError) as error:  # those of the package and of requests too
        raise SettingError(
            KEY,
            f" = {hub_id!r} is neither a folder here nor a model of the hub that can be fetched ({type(error).__name__}): on a"
            f" computer with a network, run hf download {hub_id} --local-dir FOLDER, copy that folder here, and name it",
        ) from error


def _package(hub_id: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise SettingError(
            KEY, f" = {hub_id!r} is no folder, and the hub needs a package: pip install 'transformer-zoo[hf]'"
        ) from error
    return huggingface_hub
