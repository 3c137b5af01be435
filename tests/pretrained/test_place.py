from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo.errors import SettingError
from zoo.pretrained.place import INDEX, is_whole, located


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert located(str(tmp_path)) == tmp_path


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no/such/folder", "there is no such folder"),
        ("./nothing", "there is no such folder"),
        ("a\0b", "cannot be the name of a folder"),
    ],
)
def test_what_is_no_folder_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        located(name)


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    with pytest.raises(SettingError, match="is a file: name the folder"):
        located(str(tmp_path / "model.bin"))


def test_a_hub_id_is_fetched_once_and_its_weights_when_they_are_needed(monkeypatch, tmp_path: Path) -> None:
    calls = []

    def snapshot(name: str, allow_patterns: list[str], local_files_only: bool) -> str:
        weights = "*.safetensors" in allow_patterns
        calls.append(("weights" if weights else "small", "here" if local_files_only else "there"))
        if not local_files_only:
            (tmp_path / "config.json").touch()
            (tmp_path / INDEX).write_text('{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}')
            for number in (1, 2) if weights else ():
                (tmp_path / f"{number}.safetensors").touch()
        elif not any(tmp_path.iterdir()):
            raise FileNotFoundError(name)
        return str(tmp_path)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot))
    for weights in (False, False, True, True):
        assert located("owner/name", weights) == tmp_path
    assert [where for _, where in calls] == ["here", "there", "here", "here", "there", "here"]
    (tmp_path / "2.safetensors").unlink()
    assert is_whole(tmp_path, weights=False) and not is_whole(tmp_path, weights=True)


def test_a_hub_id_without_a_network_is_a_sentence(monkeypatch) -> None:
    def snapshot(*_: object, **__: object) -> str:
        raise ConnectionError("no route")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot))
    with pytest.raises(SettingError, match=r"owner/name.*can be fetched \(ConnectionError\)"):
        located("owner/name")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SettingError, match=r"pip install 'transformer-zoo\[hf\]'"):
        located("owner/name")
