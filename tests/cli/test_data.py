"""zoo-data: prepare, show, verify."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.tiny_training import write_corpus

from zoo.cli.data import main
from zoo.config.gin_bridge import reset_config

SETTINGS = ["--set", "data.vocab_size=300"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    write_corpus(tmp_path / "texts")
    yield
    reset_config()


def test_prepare_show_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "texts", *SETTINGS]) == 2
    assert "texts is not prepared with these settings: zoo-data prepare does that" in capsys.readouterr().err
    assert main(["prepare", "texts", *SETTINGS]) == 0
    said = capsys.readouterr()
    assert "training a tokenizer with 300 pieces on texts" in said.err
    assert "  1 document, " in said.out and "  1 documents, " not in said.out
    assert main(["prepare", "--verify", *SETTINGS, "texts"]) == 0  # --set takes the corpus too, and gives it back
    assert "every byte is as it was written" in capsys.readouterr().out
    assert main(["show", "texts", "--json", *SETTINGS]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest["reading"]["corpus"] == "texts" and manifest["root"] == str(tmp_path / "texts")


def test_a_folder_that_was_named_is_found_damaged_and_its_sources_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prepare", "texts", "--into", "made", *SETTINGS]) == 0
    assert main(["verify", "made"]) == 0  # whatever the vocabulary
    shard = tmp_path / "made" / "train-00000.bin"
    times = shard.stat()
    shard.write_bytes(shard.read_bytes()[:-2] + b"\7\0")
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "texts" / "test.txt").write_text("another text")
    capsys.readouterr()
    assert main(["verify", "made"]) == 1
    said = capsys.readouterr().out
    assert "damaged: train-00000.bin" in said and "changed since it was prepared: test.txt" in said
    (tmp_path / "texts").rename(tmp_path / "elsewhere")
    assert main(["verify", "made"]) == 1
    assert "the files it was made from were not checked: there is no corpus at" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["prepare", "nowhere"], "there is no corpus at nowhere"),
        (["prepare", "texts", "--into", "texts"], "--into texts holds something that is no prepared corpus"),
        (["prepare", "texts", "--into", "/dev/null/x"], "--into /dev/null/x cannot be made"),
        (["prepare", "texts", "--workers", "0"], "--workers 0 must be 1 or more"),
        (["prepare", "--into", "x", "--set", "data.corpus={'texts': 1.0}"], "--into takes one corpus"),
        (["prepare", "texts", "--set", "data.vocab_size=10"], "data.vocab_size = 10 is less than"),
        (["verify", "texts"], "texts is not prepared with these settings"),
        (
            ["prepare", "--set", "data.corpus={'texts': -1.0}"],
            "the weight of 'texts' in data.corpus must be more than 0",
        ),
    ],
)
def test_what_cannot_be_is_said(command: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("field", ["vocab_size", "eos"])
def test_a_page_that_does_not_go_with_its_tokenizer_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    assert main(["prepare", "texts", "--into", "made", *SETTINGS]) == 0
    page = json.loads((tmp_path / "made/manifest.json").read_text())
    (tmp_path / "made/manifest.json").write_text(json.dumps(page | {field: page[field] - 1}))
    assert main(["verify", "made"]) == 1
    assert "is not the tokenizer that made was encoded with" in capsys.readouterr().out


def test_a_prepared_folder_is_not_prepared_into_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "texts", "--into", "made", *SETTINGS]) == 0
    assert main(["prepare", "made", "--into", "again", *SETTINGS]) == 2
    assert "made is prepared already" in capsys.readouterr().err


def test_an_interrupted_preparation_says_so_and_goes_on(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": f"Row {i} says {i * i % 97} and {i % 13}. " * 30}) + "\n" for i in range(30_000))
    (tmp_path / "rows.jsonl").write_text(rows)
    command = [sys.executable, "-m", "zoo.cli.data", "prepare", "rows.jsonl", *SETTINGS]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "cache").glob("prepared/*.draft/train-00000.bin")) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in said and "interrupted" in said, said
    assert main(["prepare", "rows.jsonl", *SETTINGS]) == 0
    assert main(["verify", "rows.jsonl", *SETTINGS]) == 0
