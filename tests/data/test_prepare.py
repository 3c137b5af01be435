"""Preparation: made once, resumed, made again when something changed; and what the folder says of itself."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zoo.data import encoding, prepare, shards, survey
from zoo.data.corpus import SPLITS, Reading, open_corpus
from zoo.data.manifest import FILE, damaged_shards, read_manifest
from zoo.data.opening import named_folder
from zoo.data.prepare import Choice, prepared
from zoo.data.prepared import Prepared
from zoo.errors import DataError

WORDS = [f"{a}{b}" for a in ("re", "un", "over", "dis", "mis") for b in ("do", "take", "cover", "place", "lay", "turn")]
CHOICE = Choice(vocab_size=300)


def write(folder: Path, documents: int = 60, words: int = 40) -> Path:
    """A corpus of records, one of them twice."""
    folder.mkdir(exist_ok=True)
    pick = random.Random(7)
    texts = [" ".join(pick.choices(WORDS, k=words)) + ".\n" for _ in range(documents)]
    rows = [json.dumps({"text": text}) for text in (*texts, texts[0])]
    (folder / "texts.jsonl").write_text("\n".join(rows))
    return folder / "texts.jsonl"


def make(path: Path, cache: Path, choice: Choice = CHOICE, **how: object) -> Prepared:
    return Prepared(prepared(open_corpus(Reading(str(path))), choice, cache, **how), str(path))  # type: ignore[arg-type]


def row(opened: Prepared, split: str) -> list[int]:
    return opened.row(split).read(0, 1 << 30).tolist()


def test_the_rows_are_the_documents_of_the_splits(tmp_path: Path) -> None:
    opened = make(write(tmp_path), tmp_path / "cache")
    corpus = open_corpus(Reading(str(tmp_path / "texts.jsonl")))
    found = survey.make_survey(corpus)
    tokenizer = opened.tokenizer
    for number, split in enumerate(SPLITS):
        texts = [document.text for each, document in found.documents(corpus) if each == number]
        expected = [tokenizer.eos]
        for text in texts:
            expected += [*tokenizer.encode([text])[0].tolist(), tokenizer.eos]
        assert row(opened, split) == expected
        about = opened.manifest.splits[split]
        assert (about.documents, about.tokens) == (len(texts), len(expected) - 1)
        assert about.bytes == about.piece_bytes == sum(len(text.encode()) for text in texts)
    assert opened.fingerprint == found.fingerprint


def test_what_is_prepared_is_not_touched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    first = make(path, tmp_path / "cache")
    before = {file: file.stat().st_mtime_ns for file in first.folder.iterdir()}

    def fail(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(prepare, "_prepare", fail)
    monkeypatch.setattr("zoo.data.readers.read_documents", fail)
    monkeypatch.setattr("zoo.data.source_files.file_hash", fail)
    assert make(path, tmp_path / "cache").folder == first.folder
    assert {file: file.stat().st_mtime_ns for file in first.folder.iterdir()} == before


def test_what_is_prepared_can_be_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path)
    first = make(path, tmp_path / "cache")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("zoo.data.prepare.held", refuse)
    monkeypatch.setattr("zoo.data.manifest.replace_file", refuse)
    assert row(make(path, tmp_path / "cache"), "valid") == row(first, "valid")


def test_a_source_with_another_time_is_read_and_one_with_another_text_prepared_again(tmp_path: Path) -> None:
    path, cache = write(tmp_path), tmp_path / "cache"
    first = make(path, cache)
    made = (first.folder / "train-00000.bin").stat().st_mtime_ns
    os.utime(path, (1, 1))
    touched = make(path, cache)
    assert (touched.folder / "train-00000.bin").stat().st_mtime_ns == made
    assert touched.manifest.sources[0].mtime == 10**9 and touched.fingerprint == first.fingerprint
    text = path.read_text()
    path.write_text(text.replace("redo", "REDO"))
    os.utime(path, (1, 1))  # not even the size tells
    path.write_text(text.replace("redo", "odds"))
    changed = make(path, cache)
    assert changed.folder == first.folder and changed.fingerprint != first.fingerprint
    assert not list(first.folder.parent.glob("*.draft")) and not list(first.folder.parent.glob("*.old"))
    assert len(row(first, "train")) == first.manifest.splits["train"].tokens + 1  # who has the old one open keeps it


@pytest.mark.parametrize("damage", ["cut", "gone", "altered", "tokenizer", "manifest", "no manifest"])
def test_a_damaged_folder_is_made_again(tmp_path: Path, damage: str) -> None:
    path, cache = write(tmp_path), tmp_path / "cache"
    first = make(path, cache)
    expected, shard = row(first, "train"), first.folder / "train-00000.bin"
    if damage == "cut":
        os.truncate(shard, 10)
    elif damage == "gone":
        shard.unlink()
    elif damage == "altered":
        shard.write_bytes(shard.read_bytes()[:-2] + b"\7\0")
    elif damage == "tokenizer":
        (first.folder / "tokenizer.model").write_bytes(b"none")
    elif damage == "manifest":
        (first.folder / FILE).write_text((first.folder / FILE).read_text().replace(first.fingerprint, "0" * 64))
    else:
        (first.folder / FILE).unlink()
    assert row(make(path, cache), "train") == expected


def test_a_token_that_no_tokenizer_has_is_not_given_to_a_model(tmp_path: Path) -> None:
    opened = make(write(tmp_path), tmp_path / "cache")
    with (opened.folder / "valid-00000.bin").open("r+b") as file:
        file.seek(4)
        file.write(b"\xff\xff")
    with pytest.raises(DataError, match="is damaged: a token is not of its tokenizer"):
        opened.row("valid").read(0, 10)
    assert damaged_shards(opened.folder, opened.manifest, everything=True) == ["valid-00000.bin"]


@pytest.mark.parametrize("stop", [1, 3, 8])
def test_an_interrupted_preparation_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
    path = write(tmp_path)
    whole = make(path, tmp_path / "whole")
    monkeypatch.setattr(encoding, "TEXTS", 5)
    monkeypatch.setattr(shards, "BYTES", 128)
    monkeypatch.setattr(prepare, "PAUSE", 0.0)
    calls = 0

    def failing(*arguments: object, encode: object = encoding.encode) -> object:
        nonlocal calls
        calls += 1
        if calls == stop:
            raise KeyboardInterrupt
        return encode(*arguments)  # type: ignore[operator]

    with monkeypatch.context() as patched:
        patched.setattr(encoding, "encode", failing)
        with pytest.raises(KeyboardInterrupt):
            make(path, tmp_path / "cache")
    (draft,) = (tmp_path / "cache/prepared").glob("*.draft")
    tokenizer = (draft / "tokenizer.model").stat().st_mtime_ns
    chunks = []
    monkeypatch.setattr(encoding, "encode", lambda *given, own=encoding.encode: chunks.append(1) or own(*given))
    opened = make(path, tmp_path / "cache")
    assert len(chunks) == 13 - (stop - 1)
    assert (opened.folder / "tokenizer.model").stat().st_mtime_ns == tokenizer
    assert not draft.exists()
    for split in SPLITS:
        assert row(opened, split) == row(whole, split)
    assert len(opened.manifest.splits["train"].shards) > 5
    assert {file.name for file in opened.folder.iterdir()} == {
        FILE, "tokenizer.model", *(shard.name for each in opened.manifest.splits.values() for shard in each.shards)
    }  # fmt: skip


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_draft_that_lost_tokens_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    path = write(tmp_path)
    whole = make(path, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(prepare, "put_in_place", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            make(path, tmp_path / "cache")
    (shard,) = (tmp_path / "cache/prepared").glob("*.draft/train-00000.bin")
    if damage == "cut":
        os.truncate(shard, shard.stat().st_size - 10)
    else:
        shard.unlink()
    assert row(make(path, tmp_path / "cache"), "train") == row(whole, "train")


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_draft_of_another_text_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(prepare, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            make(path, tmp_path / "cache")
    path.write_text(path.read_text().replace("redo", "rodeo"))
    assert row(make(path, tmp_path / "cache"), "train") == row(make(path, tmp_path / "other"), "train")


def test_a_source_that_changes_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)

    def change(*given: object, own: object = prepare._encode) -> None:
        own(*given)  # type: ignore[operator]
        os.utime(path, (5, 5))

    monkeypatch.setattr(prepare, "_encode", change)
    with pytest.raises(DataError, match="texts.jsonl changed while it was read: run the same command again"):
        make(path, tmp_path / "cache")


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.data.cache import Cache

    path = write(tmp_path)
    corpus = open_corpus(Reading(str(path)))
    written = 0

    def full(self: shards.RowWriter, tokens: np.ndarray, own: object = shards.RowWriter.append) -> None:
        nonlocal written
        written += len(tokens)
        if written > 200:
            raise OSError(28, "No space left on device")
        own(self, tokens)  # type: ignore[operator]

    with monkeypatch.context() as patched:
        patched.setattr(shards.RowWriter, "append", full)
        with pytest.raises(DataError, match="No space left on device.: make room, and the same command goes on"):
            Cache(str(tmp_path / "cache")).with_folder(lambda cache: prepared(corpus, CHOICE, cache))
    (draft,) = (tmp_path / "cache/prepared").glob("*.draft")
    assert (draft / "tokenizer.model").exists()
    make(path, tmp_path / "cache")


CHILD = """if True:
    import logging, sys
    from zoo.data.batches import data
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    print("ready", flush=True)
    sys.stdin.readline()
    it = data(sys.argv[1], vocab_size=300, length=16, cache=sys.argv[2])
    print(it.fingerprint, it.tokenizer.identity, it.tokens("train"), flush=True)
"""


def test_a_full_temporary_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(survey.tempfile, "TemporaryFile", full)
    monkeypatch.setattr(survey.tempfile, "tempdir", "/small")
    with pytest.raises(DataError, match=r"/small cannot be written \(No space left on device\).*set \$TMPDIR"):
        make(write(tmp_path), tmp_path / "cache")


def test_two_processes_that_start_at_once_prepare_once(tmp_path: Path) -> None:
    start = [sys.executable, "-c", CHILD, str(write(tmp_path, 400)), str(tmp_path / "cache")]
    processes = [subprocess.Popen(start, stdin=-1, stdout=-1, stderr=-1, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert sum("training a tokenizer" in out for out, _ in outputs) == 1
    assert len({out.splitlines()[-1] for out, _ in outputs}) == 1
    assert [err for _, err in outputs] == ["", ""]


def test_several_processes_encode_as_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    alone = make(path, tmp_path / "alone")
    monkeypatch.setattr(encoding, "SMALL", 0)
    monkeypatch.setattr(encoding, "TEXTS", 7)
    together = make(path, tmp_path / "together", workers=2)
    for split in SPLITS:
        assert row(together, split) == row(alone, split)
    assert together.manifest.hash() == alone.manifest.hash()


def test_a_process_that_dies_while_it_encodes_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "SMALL", 0)
    monkeypatch.setattr(encoding._Workers, "_start", _start_killed)
    with pytest.raises(DataError, match="a process that encodes ended with code -9: run the same command again"):
        make(write(tmp_path), tmp_path / "cache", workers=1)


def _start_killed(self: encoding._Workers, own: object = encoding._Workers._start) -> None:
    own(self)  # type: ignore[operator]
    self._own.process.send_signal(signal.SIGKILL)


def test_processes_end_with_whoever_started_them(tmp_path: Path) -> None:
    opened = make(write(tmp_path), tmp_path / "cache")
    worker = subprocess.Popen(
        [sys.executable, "-m", "zoo.data.encoding", str(opened.folder / "tokenizer.model")],
        stdin=-1,
        stdout=-1,
        stderr=-1,
    )
    assert worker.communicate(timeout=30) == (b"", b"") and worker.returncode == 0


def test_a_given_tokenizer_is_kept_in_the_folder(tmp_path: Path) -> None:
    path = write(tmp_path)
    opened = make(path, tmp_path / "cache", Choice("bytes"))
    assert row(opened, "valid")[:3] == [256, *row(opened, "valid")[1:3]]
    assert opened.tokenizer.vocab_size == 257 and opened.manifest.choice == "bytes"
    model = make(path, tmp_path / "cache")
    again = make(path, tmp_path / "cache", Choice(str(model.folder / "tokenizer.model")))
    assert again.folder != model.folder and row(again, "train") == row(model, "train")


def test_a_tokenizer_that_loses_text_is_noted_by_the_name_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.data.byte_tokenizer.Bytes.lossless", False)
    notes = make(write(tmp_path), tmp_path / "cache", Choice("bytes")).manifest.notes
    assert [note for note in notes if note.startswith("the tokenizer bytes does not keep every text")]


def test_a_folder_can_be_named_and_carried_elsewhere(tmp_path: Path) -> None:
    from zoo.data.batches import data

    path = write(tmp_path)
    cached = data(str(path), vocab_size=300, length=16, cache=str(tmp_path / "cache"))
    make(path, tmp_path / "cache", into=tmp_path / "made")
    (tmp_path / "made").rename(tmp_path / "elsewhere")
    path.unlink()
    named = data(str(tmp_path / "elsewhere"), vocab_size=300, length=16, cache=str(tmp_path / "unused"))
    assert named.fingerprint == cached.fingerprint and next(named.train(1)).equal(next(cached.train(1)))
    assert not (tmp_path / "unused").exists()
    with pytest.raises(DataError, match="was prepared with a vocabulary of 300: set data.vocab_size to 300"):
        data(str(tmp_path / "elsewhere"), vocab_size=320)
    with pytest.raises(DataError, match="was prepared with another tokenizer than 'bytes'"):
        data(str(tmp_path / "elsewhere"), tokenizer="bytes")


@pytest.mark.parametrize("name", ["made", "made.old", "made.draft"])
def test_what_others_wrote_is_never_removed(tmp_path: Path, name: str) -> None:
    """A folder may have a page of the same name, or stand where a draft or the folder it replaces would."""
    source = write(tmp_path / "texts")
    (tmp_path / name).mkdir()
    for each in (FILE, "notes.md"):
        (tmp_path / name / each).write_text("precious")
    with pytest.raises(DataError, match=rf"{name} holds .*no part of a prepared corpus"):
        make(source, tmp_path / "cache", into=tmp_path / "made")
    assert (tmp_path / name / "notes.md").read_text() == "precious"


def test_texts_beside_a_manifest_of_someone_else_are_a_corpus(tmp_path: Path) -> None:
    write(tmp_path / "texts")
    (tmp_path / "texts" / FILE).write_text("{}")
    assert named_folder(str(tmp_path / "texts")) is None
    made = make(tmp_path / "texts", tmp_path / "cache").folder
    assert named_folder(str(made)) == made


def test_broken_records_are_left_out_and_counted(tmp_path: Path) -> None:
    from zoo.data.batches import data

    path = write(tmp_path)
    path.write_text(path.read_text() + "\n{broken\n")
    settings = {"vocab_size": 300, "length": 16, "cache": str(tmp_path / "cache")}
    with pytest.raises(DataError, match=r"texts.jsonl:62 .*data.skip_bad = True"):
        data(str(path), **settings)  # type: ignore[arg-type]
    for _ in range(2):
        made = data(str(path), skip_bad=True, **settings)  # type: ignore[arg-type]
        assert [note for note in made.notes if "left out 1 broken" in note and "texts.jsonl:62" in note]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda row: row.update(format=99), "is of format 99, and this version reads 1"),
        (lambda row: row.update(sha256="0"), "its hash is not that of its content"),
        (lambda row: row.pop("splits"), "is damaged"),
        (lambda row: row["splits"]["train"].update(unigram_entropy=1.0), "the hash of its figures is not theirs"),
        (lambda row: row["splits"]["valid"].update(piece_bytes=1), "the hash of its figures is not theirs"),
        (lambda row: row["splits"]["train"]["shards"][0].update(name="../../x"), "a shard is not a file of the folder"),
        (lambda row: row["sources"].append(3), "is damaged"),
    ],
)
def test_a_strange_manifest_is_refused(tmp_path: Path, change: object, sentence: str) -> None:
    folder = make(write(tmp_path), tmp_path / "cache").folder
    strange = json.loads((folder / FILE).read_text())
    change(strange)  # type: ignore[operator]
    (folder / FILE).write_text(json.dumps(strange))
    with pytest.raises(DataError, match=sentence):
        read_manifest(folder)


def test_a_manifest_from_before_there_was_a_hash_of_figures_is_read(tmp_path: Path) -> None:
    opened = make(write(tmp_path), tmp_path / "cache")
    older = json.loads((opened.folder / FILE).read_text())
    del older["figures_sha256"]
    (opened.folder / FILE).write_text(json.dumps(older))
    assert read_manifest(opened.folder) == opened.manifest


def test_the_manifest_says_what_is_there(tmp_path: Path) -> None:
    path = write(tmp_path)
    opened = make(path, tmp_path / "cache")
    manifest = read_manifest(opened.folder)
    assert manifest == opened.manifest and dataclasses.asdict(manifest.reading)["corpus"] == str(path)
    assert manifest.sources[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    for split in manifest.splits.values():
        for shard in split.shards:
            content = (opened.folder / shard.name).read_bytes()
            assert shard.sha256 == hashlib.sha256(content).hexdigest() and shard.tokens == len(content) // 2
    valid = np.array(row(opened, "valid")[1:])
    counts = np.bincount(row(opened, "train")[1:], minlength=300) + 1
    expected = float(-np.log(counts / counts.sum())[valid].mean())
    assert manifest.splits["valid"].unigram_entropy == pytest.approx(expected, rel=1e-12)
