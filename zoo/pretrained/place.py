"""Where the files of a checkpoint are: in a folder, or on the Hugging Face hub, from which they are fetched once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from zoo.errors import SettingError
from zoo.system.regular_files import parse_object, possible, read_regular

KEY = "model.start_from"
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
SMALL = ("config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model")
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
WEIGHTS = ("*.safetensors", INDEX)


def located(checkpoint: str, weights: bool = False) -> Path:
    """The folder of a checkpoint, given by its path or its id on the hub; of the latter, `weights` are fetched when asked for."""
    if not possible(checkpoint):
        raise SettingError(KEY, f" = {checkpoint!r} cannot be the name of a folder")
    path = Path(checkpoint).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise SettingError(KEY, f" = {checkpoint!r} is a file: name the folder that config.json and the weights are in")
    if not HUB_ID.fullmatch(checkpoint):
        raise SettingError(KEY, f" = {checkpoint!r}: there is no such folder")
    return _fetched(checkpoint, weights)


def _fetched(hub_id: str, weights: bool) -> Path:
    hub = _package(hub_id)
    patterns = [*SMALL, *(WEIGHTS if weights else ())]

    def snapshot(offline: bool) -> Path:
        return Path(hub.snapshot_download(hub_id, allow_patterns=patterns, local_files_only=offline))

    try:
        folder = snapshot(offline=True)
        if is_whole(folder, weights):
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


def is_whole(folder: Path, weights: bool) -> bool:
    """Whether a folder has what is asked for; the cache of the hub may have a part of a checkpoint."""
    return (folder / "config.json").exists() and (not weights or all(map(Path.exists, weight_files(folder))))


def weight_files(folder: Path) -> list[Path]:
    """The files of the weights: those of the index if there is one, else the single one, whether or not it is there."""
    try:
        named = parse_object(read_regular(folder / INDEX))["weight_map"].values()
        return sorted({folder / Path(name).name for name in named})
    except FileNotFoundError:
        return [folder / SINGLE]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingError(KEY, f": {folder / INDEX} is damaged") from error


def present_weights(folder: Path, checkpoint: str) -> list[Path]:
    """The files of the weights; a sentence if one is not there."""
    files = weight_files(folder)
    for file in files:
        if not file.exists():
            other = f" and no {INDEX}: load it with transformers, and write it again with save_pretrained"
            why = other if file.name == SINGLE else f", which {INDEX} names"
            raise SettingError(KEY, f" = {checkpoint!r} has no {file.name}{why}")
    return files


def _package(hub_id: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise SettingError(
            KEY, f" = {hub_id!r} is no folder, and the hub needs a package: pip install 'transformer-zoo[hf]'"
        ) from error
    return huggingface_hub
