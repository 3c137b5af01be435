from __future__ import annotations

from pathlib import Path

import pytest

from zoo.errors import SettingError
from zoo.pretrained.version import version


def write(folder: Path, weights: bytes, config: str = "{}") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config)
    (folder / "model.safetensors").write_bytes(weights)
    return version(str(folder))


def test_it_follows_content_not_place_or_time(tmp_path: Path) -> None:
    first = write(tmp_path / "a", b"x" * 10_000)
    assert first == write(tmp_path / "b", b"x" * 10_000) == write(tmp_path / "a", b"x" * 10_000)
    assert len({first, write(tmp_path / "a", b"x" * 10_001), write(tmp_path / "a", b"x" * 10_000, "{ }")}) == 3


@pytest.mark.parametrize("at", [0, 5_000, 9_999])
def test_a_change_anywhere_in_a_small_file_is_seen(tmp_path: Path, at: int) -> None:
    weights = bytearray(b"x" * 10_000)
    first = write(tmp_path, weights)
    weights[at] = 0
    assert write(tmp_path, weights) != first


def test_of_the_hub_it_is_the_commit(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots" / "0123456789abcdef0123"
    folder.mkdir(parents=True)
    assert version(str(folder)) == "0123456789abcdef"


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="config.json cannot be read: No such file"):
        version(str(tmp_path))
