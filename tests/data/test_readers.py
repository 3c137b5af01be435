from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.whole_corpus import read_corpus

from zoo.data import packed_files, readers
from zoo.data.documents import Document, File, Skipped
from zoo.errors import DataError

TEXTS = [f"record {i}: é日🙂 \n\n{'word ' * (i % 7)}" for i in range(300)]


def _jsonl(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": text}, ensure_ascii=i % 2 == 0) + "\n" for i, text in enumerate(texts)))


def _parquet(path: Path, texts: list[str]) -> None:
    pq.write_table(pa.table({"id": list(range(len(texts))), "text": texts}), path, row_group_size=100)


def _large(path: Path, texts: list[str]) -> None:
    pq.write_table(pa.table({"text": pa.array(texts, pa.large_string())}), path)


def _stream(path: Path, texts: list[str]) -> None:
    table = pa.table({"text": texts})
    with path.open("wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


def _file(path: Path, texts: list[str]) -> None:
    table = pa.table({"text": texts})
    with path.open("wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


def _pack(path: Path, packing: str) -> Path:
    """Packed by the programs that everyone has; they know nothing of ours."""
    if not packing:
        return path
    program = {".gz": "gzip", ".zst": "zstd"}[packing]
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    packed = path.with_name(path.name + packing)
    packed.write_bytes(subprocess.run([program, "-c", path], capture_output=True, check=True).stdout)
    path.unlink()
    return packed


def _read(path: Path, whole: bool = False, **options: object) -> list[Document]:
    kind = readers.kind_of(path.name)
    assert kind is not None
    return list(readers.read_documents([File(path, path.name, kind)], "text", whole, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize(
    ("suffix", "write"),
    [(".jsonl", _jsonl), (".parquet", _parquet), (".pq", _large), (".arrow", _stream), (".arrow", _file)],
)
def test_every_format_gives_the_same_documents(
    tmp_path: Path, suffix: str, write: Callable[[Path, list[str]], None], packing: str
) -> None:
    write(tmp_path / f"a{suffix}", TEXTS)
    documents = _read(_pack(tmp_path / f"a{suffix}", packing))
    assert [document.text for document in documents] == TEXTS
    assert len({document.key for document in documents}) == len(TEXTS)


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_a_packed_text_is_that_text(tmp_path: Path, packing: str) -> None:
    text = "".join(TEXTS)
    (tmp_path / "a.txt").write_text(text)
    expected = _read(tmp_path / "a.txt")
    path = _pack(tmp_path / "a.txt", packing)
    assert _read(path) == expected and "".join(d.text for d in expected) == text
    assert _read(path, whole=True) == [Document(path.name, text)]


def test_packed_files_that_were_joined_are_read_to_their_end(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))
    assert [d.text for d in _read(tmp_path / "a.txt.gz")] == ["one two"]


def test_a_text_that_is_too_long_for_one_document_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "CHUNK", 1000)
    text = "".join(TEXTS)
    (tmp_path / "a.txt").write_text(text)
    cut = _read(tmp_path / "a.txt")
    monkeypatch.setattr(readers, "LONGEST", len(text.encode()))
    assert _read(tmp_path / "a.txt", whole=True) == [Document("a.txt", text)]
    monkeypatch.setattr(readers, "LONGEST", len(text.encode()) - 1)
    assert _read(tmp_path / "a.txt", whole=True) == cut and len(cut) > 20


def test_splits_are_named_by_packed_files_and_by_those_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(b"to train on"))
    _parquet(tmp_path / "validation-00000-of-00001-a09b74b3ef9c3b56.parquet", ["to validate on"])
    read = read_corpus(str(tmp_path))
    assert read.splits == {"train": ("to train on",), "valid": ("to validate on",), "test": ()}


def test_a_folder_as_datasets_saves_it(tmp_path: Path) -> None:
    for split, texts in {"train": TEXTS[:200], "validation": TEXTS[200:]}.items():
        (tmp_path / split).mkdir()
        _stream(tmp_path / split / "data-00000-of-00001.arrow", texts)
        (tmp_path / split / "state.json").write_text('{"_split": null}')
        (tmp_path / split / "dataset_info.json").write_text("{}")
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    read = read_corpus(str(tmp_path))
    assert read.splits == {"train": tuple(TEXTS[:200]), "valid": tuple(TEXTS[200:]), "test": ()}


def test_a_folder_that_datasets_saved(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    parts = {"train": TEXTS[:200], "test": TEXTS[200:]}
    saved = datasets.DatasetDict({split: datasets.Dataset.from_dict({"text": t}) for split, t in parts.items()})
    saved.save_to_disk(tmp_path / "it")
    read = read_corpus(str(tmp_path / "it"))
    assert read.splits["test"] == tuple(TEXTS[200:])
    assert sorted(read.splits["train"] + read.splits["valid"]) == sorted(TEXTS[:200])


BROKEN = b'{"text": "a"}\n{"text": \n["b"]\n{"body": 1}\n{"text": "caf\xe9"}\n{"text": 5}\n\n{"text": "b"}\n'


def test_what_is_broken_is_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(BROKEN)
    (tmp_path / "b.txt").write_bytes(b"text\0")
    (tmp_path / "c.txt").write_bytes(b"whole")
    files = [File(tmp_path / name, name, kind) for name, kind in (("a.jsonl", "jsonl"), ("b.txt", "text"))]
    files.append(File(tmp_path / "c.txt", "c.txt", "text"))
    skipped = Skipped()
    assert skipped.note == ""
    documents = list(readers.read_documents(files, "text", True, skip_bad=True, skipped=skipped))
    assert [document.text for document in documents] == ["a", "b", "whole"]
    assert skipped.count == 6 and skipped.first.startswith(f"{tmp_path / 'a.jsonl'}:2 is not JSON")
    assert skipped.note.startswith("left out 6 broken")
    with pytest.raises(
        DataError, match=r"a.jsonl:2 is not JSON.*, or leave such records out with data.skip_bad = True"
    ):
        list(readers.read_documents(files, "text", True))


def test_a_corpus_says_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(BROKEN)
    read = read_corpus(str(tmp_path / "a.jsonl"), skip_bad=True)
    assert sorted(text for texts in read.splits.values() for text in texts) == ["a", "b"]
    assert "left out 5 broken records or files, the first: " in read.notes[0]
    with pytest.raises(DataError, match="a.jsonl holds no text: left out 7 broken"):
        read_corpus(str(tmp_path / "a.jsonl"), text_key="other", skip_bad=True)


def test_what_cannot_be_read_at_all_is_not_skipped(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a.txt cannot be read: No such file"):
        _read(tmp_path / "a.txt", skip_bad=True)


def test_a_broken_record_of_a_column(tmp_path: Path) -> None:
    _parquet(tmp_path / "a.parquet", ["one", "two\0", "three"])
    with pytest.raises(DataError, match="a.parquet, record 2: 'text' holds a NUL"):
        _read(tmp_path / "a.parquet")
    skipped = Skipped()
    assert [d.text for d in _read(tmp_path / "a.parquet", skip_bad=True, skipped=skipped)] == ["one", "three"]
    assert skipped.count == 1


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".parquet", ".arrow", ".txt.gz", ".parquet.zst"])
@pytest.mark.parametrize("content", ["pipe", "sparse", "device", "noise", "empty"])
def test_hostile_files_neither_hang_nor_fill_memory(tmp_path: Path, suffix: str, content: str) -> None:
    path = tmp_path / f"a{suffix}"
    if content == "pipe":
        os.mkfifo(path)
    elif content == "device":
        path.symlink_to("/dev/zero")
    elif content == "sparse":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.write_bytes(random.Random(1).randbytes(100_000) if content == "noise" else b"")
    began = time.monotonic()
    tracemalloc.start()
    try:
        assert _read(path) == []  # what an empty file holds
    except DataError as error:
        assert str(path) in str(error) and not str(error).endswith(".")
    else:
        assert content == "empty"
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 30 << 20 and time.monotonic() - began < 5


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".txt.zst", ".parquet.gz"])
def test_a_file_that_unpacks_without_end_is_refused(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_files, "HARMLESS", 2 << 20)
    path = tmp_path / f"a{suffix}"
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), packed_files.PACKINGS[path.suffix]) as file:
        for _ in range(40):
            file.write(b" " * (1 << 20))
    with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
        _read(path)


def test_a_column_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers.tables, "HARMLESS", 1 << 20)
    table = pa.table({"text": [f"{i}" + " " * (1 << 20) for i in range(8)]})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(DataError, match="'text' unpacks to more than 200 times its size"):
        _read(tmp_path / "a.parquet")


def test_values_that_repeat_do_not_unfold_in_memory(tmp_path: Path) -> None:
    text = "".join(random.Random(1).choices("abcdefgh ", k=500_000))
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), pa.array([text]))
    pq.write_table(pa.table({"text": values.cast(pa.string())}), tmp_path / "a.parquet", compression="zstd")
    del values
    before = pa.total_allocated_bytes()
    documents = readers.read_documents([File(tmp_path / "a.parquet", "a", "parquet")], "text", False)
    assert next(documents).text == text
    assert pa.total_allocated_bytes() - before < 20 << 20  # not 128 MB, as a batch of them would have


@pytest.mark.parametrize("suffix", [".txt.gz", ".txt.zst", ".jsonl.zst", ".parquet.gz", ".parquet", ".arrow"])
def test_a_file_whose_end_is_missing(tmp_path: Path, suffix: str) -> None:
    writers = {".jsonl": _jsonl, ".parquet": _parquet, ".arrow": _stream}
    plain = tmp_path / f"a.{suffix.split('.')[1]}"
    writers.get(plain.suffix, lambda path, texts: path.write_text("".join(texts)))(plain, TEXTS)
    path = _pack(plain, f".{suffix.split('.')[2]}" if suffix.count(".") == 2 else "")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    skipped = Skipped()
    _read(path, skip_bad=True, skipped=skipped)
    assert skipped.count == 1
    with pytest.raises(DataError, match="cannot be (unpacked|read as)"):
        _read(path)


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".parquet", ".arrow", ".jsonl.zst"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, suffix: str) -> None:
    texts = [f"{i} " * 500 for i in range(10_000)]  # 29 MB
    writers = {".jsonl": _jsonl, ".parquet": _parquet, ".arrow": _stream}
    plain = tmp_path / f"a.{suffix.split('.')[1]}"
    writers.get(plain.suffix, lambda path, texts: path.write_text("\n".join(texts)))(plain, texts)
    path = _pack(plain, ".zst" if suffix.endswith("zst") else "")
    del texts
    before, most = pa.total_allocated_bytes(), 0
    tracemalloc.start()
    documents = readers.read_documents([File(path, path.name, readers.kind_of(path.name) or "")], "text", False)
    for number, _ in enumerate(documents):
        if number % 100 == 0:
            most = max(most, pa.total_allocated_bytes() - before)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert number > 1000 and peak + most < 15 << 20


def test_large_values_are_not_gathered_in_a_dictionary(tmp_path: Path) -> None:
    """Of a Parquet file without a dictionary, none is made: it would hold every value once more."""
    texts = [f"{i:03d}" + random.Random(i).randbytes(200_000).hex() for i in range(50)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "large.parquet", use_dictionary=False)
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        documents = readers.read_documents(
            [File(tmp_path / "large.parquet", "large.parquet", "parquet")], "text", False
        )
        assert sum(len(document.text) for document in documents) == sum(map(len, texts))
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 1.5 * sum(map(len, texts))
