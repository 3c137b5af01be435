"""What tells a checkpoint from another one in the same place, without reading all of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from zoo.errors import SettingError
from zoo.pretrained.place import KEY, located, present_weights
from zoo.system.regular_files import open_regular, read_regular

VERSION = "model.start_version"
STRETCH, STRETCHES = 4096, 64  # bytes that are read of a file of weights, and in how many places


def version(checkpoint: str) -> str:
    """Of one of the hub its commit; of a folder, a hash of its sizes and of parts of its weights, spread over them."""
    folder = located(checkpoint)
    if folder.parent.name == "snapshots":
        return folder.name[:16]
    digest = hashlib.sha256()
    try:
        digest.update(read_regular(folder / "config.json"))
        for file in present_weights(folder, checkpoint):
            _add(digest, file)
    except OSError as error:
        raise SettingError(
            KEY, f" = {checkpoint!r}: {error.filename} cannot be read: {error.strerror or error}"
        ) from error
    return digest.hexdigest()[:16]


def _add(digest: hashlib._Hash, path: Path) -> None:
    size = path.stat().st_size
    digest.update(f"{path.name} {size} ".encode())
    with open_regular(path) as file:
        for i in range(STRETCHES):
            file.seek(max(0, size - STRETCH) * i // (STRETCHES - 1))
            digest.update(file.read(STRETCH))
