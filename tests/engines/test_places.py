"""Files by their names, in a folder and behind an address."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.engines.places import FolderPlace, UrlPlace, is_address, open_place
from zoo.errors import ZooError


def test_a_folder_as_a_place(tmp_path: Path) -> None:
    place = open_place(str(tmp_path / "store"))
    assert isinstance(place, FolderPlace) and not is_address(place.address)
    assert place.read("a/b.json") is None
    place.write("a/b.json", b"one")
    place.write("a/b.json", b"two")
    assert place.read("a/b.json") == b"two" and [path.name for path in (tmp_path / "store" / "a").iterdir()] == [
        "b.json"
    ]
    assert place.read("a") is None  # a folder is no file
    place.remove("a/b.json")
    place.remove("a/b.json")
    assert place.read("a/b.json") is None


def test_a_failure_behind_an_address_names_the_file(tmp_path: Path) -> None:
    place = UrlPlace(f"file://{tmp_path}/far")
    (tmp_path / "far").write_text("a file where a folder should be")
    with pytest.raises(OSError, match="far/a/b.json"):
        place.write("a/b.json", b"one")


@pytest.mark.parametrize("address", ["file://{}/far", "memory://far-{}"])
def test_a_place_behind_an_address(address: str, tmp_path: Path) -> None:
    place = open_place(address.format(tmp_path))
    assert isinstance(place, UrlPlace) and is_address(place.address)
    assert place.read("a/b.json") is None and place.names("a") == []
    place.write("a/b.json", b"one")
    place.write("a/b.json", b"two")
    place.write("a/deep/c", b"three")
    place.write("top", b"four")
    assert place.read("a/b.json") == b"two"
    assert place.names("a") == ["b.json", "deep/c"] and place.names("", deep=False) == ["top"]
    place.download("a/deep/c", tmp_path / "here" / "c")
    assert (tmp_path / "here" / "c").read_bytes() == b"three"
    place.upload(tmp_path / "here" / "c", "up/c")
    place.move("a", "z")
    assert place.names("a") == [] and place.read("z/deep/c") == b"three" and place.read("up/c") == b"three"
    place.remove("up/c")
    place.remove("up/c")
    assert place.read("up/c") is None


def test_addresses_that_cannot_be_opened_get_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZooError, match="there is no file system for nonsense"):
        open_place("nonsense://somewhere")
    monkeypatch.setattr(
        "fsspec.core.url_to_fs", lambda address: (_ for _ in ()).throw(ImportError("Install s3fs to access S3"))
    )
    with pytest.raises(ZooError, match="needs a package that is not installed: Install s3fs"):
        open_place("s3://bucket/folder")
