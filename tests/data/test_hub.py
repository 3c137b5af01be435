from __future__ import annotations

from pathlib import Path

import pytest
from helpers.hub_files import hub_rows
from helpers.whole_corpus import read_corpus

from zoo.data import hub
from zoo.errors import DataError


def test_hub_ids() -> None:
    assert hub.parse("hf:owner/name") == ("owner/name", None, None)
    assert hub.parse("hf:owner/na.me-1:config:train") == ("owner/na.me-1", "config", "train")
    for wrong in ("hf:", "hf:a/b/c", "hf:../x", "hf:a/..", "hf:a/b:c:d:e", "hf:a b/c"):
        with pytest.raises(DataError, match="is not the id of a dataset"):
            hub.parse(wrong)


def _pretend_hub(monkeypatch: pytest.MonkeyPatch, folder: Path | None) -> list[bool]:
    import huggingface_hub

    asked: list[bool] = []

    def snapshot_download(dataset: str, *, local_files_only: bool, **_: object) -> str:
        asked.append(local_files_only)
        if folder is None or (local_files_only and len(asked) == 1):
            raise ConnectionError("no network")
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return asked


def test_a_dataset_of_the_hub_is_read_with_its_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub_rows(tmp_path / "snapshot" / "default")
    asked = _pretend_hub(monkeypatch, tmp_path / "snapshot")
    read = read_corpus("hf:someone/something")
    assert read.splits["valid"] == (" = Title = \n", " A text . \n", " validation \n")
    assert asked == [True, False]  # from the disk if it is there
    read_corpus("hf:someone/something")
    assert asked == [True, False, True]
    one = read_corpus("hf:someone/something:default:train")
    assert sorted(text for texts in one.splits.values() for text in texts) == [
        " = Title = \n",
        " A text . \n",
        " train \n",
    ]


def test_a_dataset_of_the_hub_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_hub(monkeypatch, None)
    with pytest.raises(
        DataError, match=r"cannot be fetched \(ConnectionError\).*hf download a/b .*set data.corpus to it"
    ):
        read_corpus("hf:a/b")
    hub_rows(tmp_path / "one")
    hub_rows(tmp_path / "other")
    _pretend_hub(monkeypatch, tmp_path)
    with pytest.raises(DataError, match="has several configurations: name one of one, other, as hf:a/b:NAME"):
        read_corpus("hf:a/b")
    with pytest.raises(DataError, match="no such files on the hub"):
        read_corpus("hf:a/b:one:dev")
