"""Checkpoints that many processes write together: a folder, whole or not at all.

    step_00000200.0123456789abcdef.sharded/
      __0_0.distcp  __1_0.distcp …  .metadata    the tensors, by torch.distributed.checkpoint: each process writes its parts
      rest.pt                                    the plain values
      files.json                                 the SHA-256 of each file; the folder's name has the start of its own

The folder is written under a temporary name, brought to the disk and renamed. It can be read by any number of processes,
each reading the parts that it needs, and by one alone. Nothing in it is run: the pickle in which torch describes the tensors
may name no more than the classes of such a description.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import CheckpointError
from zoo.system.files import TEMPORARY, sync_folder, write_atomically
from zoo.system.regular_files import open_regular, parse_object, read_regular

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.distributed.checkpoint.metadata import Metadata

SUFFIX = ".sharded"
REST, FILES, METADATA = "rest.pt", "files.json", ".metadata"
SEPARATOR = "/"  # between the parts of a tensor's name: model/NAME, optimizer/NAME/KEY

# All that torch's description of a checkpoint may be made of.
CLASSES = {
    "torch.distributed.checkpoint.metadata": {
        *("Metadata", "MetadataIndex", "TensorStorageMetadata", "ChunkStorageMetadata", "BytesStorageMetadata"),
        *("TensorProperties", "StorageMeta", "_MEM_FORMAT_ENCODING"),
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch": {"Size", "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"},
    "torch.serialization": {"_get_layout"},
    "pathlib": {"PosixPath"},
    "collections": {"OrderedDict"},
}


# --- writing: `begin` and `commit` on one process, `write_own` on all, in between


def begin(folder: Path, step: int) -> Path:
    """An empty folder for a checkpoint that is not one yet."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"step_{step:08d}{SUFFIX}{TEMPORARY}"
    drop(temporary)
    temporary.mkdir()
    return temporary


def write_own(temporary: Path, tensors: dict[str, Tensor], rank: int) -> dict[str, str]:
    """Write what this process holds of the tensors, together with all others; its files and their SHA-256."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch speaks of its own storages, and of a process that is alone
            dcp.save(tensors, storage_writer=dcp.FileSystemWriter(temporary, sync_files=True))
    except CheckpointException as error:  # no Exception of Python's
        failures = [failure for failure, _ in error.failures.values()]
        full = next((failure for failure in failures if isinstance(failure, OSError)), None)
        raise full or RuntimeError(str(failures[0])) from error
    own = sorted(temporary.glob(f"__{rank}_*.distcp")) + ([temporary / METADATA] if rank == 0 else [])
    return {path.name: _sha256(path) for path in own}


def commit(temporary: Path, rest: Mapping[str, Any], files: Mapping[str, str]) -> Path:
    """Add the plain values and give the folder its name: from now on it is a checkpoint; if that fails, it is gone."""
    try:
        return _commit(temporary, rest, files)
    except BaseException:
        drop(temporary)
        raise


def _commit(temporary: Path, rest: Mapping[str, Any], files: Mapping[str, str]) -> Path:
    import torch

    with (temporary / REST).open("wb") as file:
        torch.save(dict(rest), file)
        file.flush()
        os.fsync(file.fileno())
    listing = json.dumps({**files, REST: _sha256(temporary / REST)}, indent=1, sort_keys=True)
    write_atomically(temporary / FILES, listing)
    sync_folder(temporary)
    digest = hashlib.sha256(listing.encode()).hexdigest()[:16]
    path = temporary.with_name(temporary.name.removesuffix(SUFFIX + TEMPORARY) + f".{digest}{SUFFIX}")
    drop(path)  # the same again
    os.replace(temporary, path)
    sync_folder(path.parent)
    return path


def drop(path: Path) -> None:
    """Remove the folder of a checkpoint, its list of files first: whatever happens, what is left is no checkpoint."""
    with contextlib.suppress(OSError):
        (path / FILES).unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


# --- reading


def damage(path: Path, digest: str) -> bool:
    """Whether the folder is not what was written; an `OSError` where that cannot be told."""
    try:
        listing = read_regular(path / FILES)
    except FileNotFoundError:
        return True
    if hashlib.sha256(listing).hexdigest()[:16] != digest:
        return True
    try:
        return any(_sha256(path / name) != expected for name, expected in parse_object(listing).items())
    except FileNotFoundError:
        return True


def read_rest(path: Path) -> dict[str, Any]:
    """The plain values."""
    import torch

    with _in_words(path), open_regular(path / REST) as file:
        rest: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        return rest


def read_whole(path: Path) -> dict[str, Any]:
    """The plain values and all tensors as one process has them: model → name, optimizer → by_name → name → key."""
    import torch

    with _in_words(path):
        tensors = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in shapes(path).items()}
        read_into(path, tensors)
    model: dict[str, Tensor] = {}
    states: dict[str, dict[str, Tensor]] = {}
    for name, tensor in sorted(tensors.items(), key=lambda each: each[0]):  # whoever wrote which part
        kind, _, rest = name.partition(SEPARATOR)
        if kind == "model":
            model[rest] = tensor
        else:
            parameter, _, key = rest.rpartition(SEPARATOR)
            states.setdefault(parameter, {})[key] = tensor
    return {**read_rest(path), "model": model, "optimizer": {"by_name": states}}


def shapes(path: Path) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """The shape and type of every tensor of a checkpoint, by its name."""
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    with _in_words(path):
        described = _metadata(path).state_dict_metadata
        wrong = [name for name, kind in described.items() if not isinstance(kind, TensorStorageMetadata)]
        if wrong:
            raise CheckpointError(f"{path} is not a checkpoint: {wrong[0]} is no tensor; delete it")
        return {name: (kind.size, kind.properties.dtype) for name, kind in described.items()}  # type: ignore[union-attr]


def read_into(path: Path, tensors: dict[str, Tensor]) -> None:
    """Fill these tensors, or the parts of them that this process holds; it waits for no other."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException

    class Reader(dcp.FileSystemReader):
        """torch's, which would run any pickle."""

        def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
            return _metadata(path)

    with _in_words(path), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # as it should be: nobody waits for anybody
        try:
            dcp.load(tensors, storage_reader=Reader(path), no_dist=True)
        except CheckpointException as error:
            raise RuntimeError(str(next(iter(error.failures.values()))[0])) from error


def _metadata(path: Path) -> Metadata:
    from torch.distributed.checkpoint.metadata import Metadata

    with open_regular(path / METADATA) as file:
        described = _Description(file).load()
    if not isinstance(described, Metadata):
        raise CheckpointError(f"{path} is not a checkpoint: it describes a {type(described).__name__}; delete it")
    return described


class _Description(pickle.Unpickler):
    """Reads torch's description of a checkpoint, and nothing that would do more than describe."""

    def find_class(self, module: str, name: str) -> Any:
        if name not in CLASSES.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in the description of a checkpoint")
        return super().find_class(module, name)


@contextlib.contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """Turn what a file does to torch that it did not write into a sentence."""
    try:
        yield
    except (FileNotFoundError, CheckpointError):
        raise
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # torch and its pickles raise anything over bytes that they did not write
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path} is not a checkpoint: {first}; delete it") from error


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
