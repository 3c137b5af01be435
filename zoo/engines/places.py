"""Where a store is: a folder that every machine sees, or an address that fsspec opens."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Protocol

from zoo.errors import ZooError
from zoo.system.files import replace_file

SCHEME = "://"


class Place(Protocol):
    """Files by their names, which have slashes in them; each is written as a whole."""

    address: str

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none, or it cannot be read now."""

    def write(self, name: str, content: bytes) -> None:
        """Replace a file, or make it with the folders it is in; an `OSError` where that fails."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there, and its folder if that is then empty."""


class FolderPlace:
    """A folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = str(folder)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except OSError:
            return None

    def write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)

    def remove(self, name: str) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # of one that is not empty
            if path.parent != self.folder:
                path.parent.rmdir()


class UrlPlace:
    """A folder behind an address such as s3://bucket/folder, through fsspec."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._files, root = _file_system(address)
        self._root = str(root).rstrip("/")

    def read(self, name: str) -> bytes | None:
        try:
            content: bytes = self._files.cat_file(self._path(name))
        except Exception:  # each file system has errors of its own, and the next look may succeed
            return None
        return content

    def write(self, name: str, content: bytes) -> None:
        with self._errors(name):
            self._folder_of(name)
            self._files.pipe_file(self._path(name), content)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._errors(name):
            self._files.rm_file(self._path(name))

    def upload(self, file: Path, name: str) -> None:
        """Replace a file by the content of a local one."""
        with self._errors(name):
            self._folder_of(name)
            self._files.put_file(str(file), self._path(name))

    def download(self, name: str, file: Path) -> None:
        """Write the content of a file to a local one."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with self._errors(name):
            self._files.get_file(self._path(name), str(file))

    def names(self, folder: str, deep: bool = True) -> list[str]:
        """The files below a folder, by their names within it; `deep`: those of its folders too."""
        root = f"{self._path(folder)}/" if folder else f"{self._root}/"
        with self._errors(folder):
            self._files.invalidate_cache()
            depth = None if deep else 1
            try:
                paths = self._files.find(root.rstrip("/"), maxdepth=depth)
            except FileNotFoundError:
                return []
        return sorted(str(path)[len(root) :] for path in paths if str(path).startswith(root))

    def move(self, folder: str, other: str) -> None:
        """Give a folder another name, file by file: an object store knows no folders."""
        for name in self.names(folder):
            with self._errors(folder):
                self._folder_of(f"{other}/{name}")
                self._files.mv(self._path(f"{folder}/{name}"), self._path(f"{other}/{name}"))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _folder_of(self, name: str) -> None:
        self._files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    @contextlib.contextmanager
    def _errors(self, name: str) -> Any:
        """Every failure of a file system as an `OSError` that names the file."""
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:  # botocore, gcsfs, … raise what they like
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise OSError(5, first, f"{self.address}/{name}") from error


def is_address(text: str) -> bool:
    """Whether this names an address, not a folder."""
    return SCHEME in text


def open_place(address: str) -> Place:
    """The place of this name; a sentence where it cannot be opened."""
    return UrlPlace(address) if is_address(address) else FolderPlace(Path(address))


def _file_system(address: str) -> tuple[Any, str]:
    import fsspec

    protocol = address.partition(SCHEME)[0]
    try:
        return fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise ZooError(f"--store {address} needs a package that is not installed: {error}") from error
    except ValueError as error:
        raise ZooError(
            f"--store {address}: there is no file system for {protocol}; s3, gs, abfs, sftp and file are some of those that"
            " fsspec knows"
        ) from error
