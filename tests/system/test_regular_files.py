"""Reading files that others made."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from zoo.errors import RunError
from zoo.system.regular_files import _Waiting, open_regular, parse_object, possible, read_regular, read_text


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (os.mkfifo, "not a regular file"),
        (Path.mkdir, "Is a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.symlink_to("nowhere"), "No such file"),
        (lambda path: None, "No such file"),
    ],
)
def test_only_regular_files_are_opened(tmp_path: Path, make: object, told: str) -> None:
    make(tmp_path / "file")  # type: ignore[operator]
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=told):
        open_regular(tmp_path / "file")
    with pytest.raises(RunError, match=rf"file cannot be read: .*{told}"):
        read_text(tmp_path / "file", RunError)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_has_nothing_yet_is_not_waited_for() -> None:
    """As some files of the kernel: they are regular by their mode."""
    reading, writing = os.pipe2(os.O_NONBLOCK)
    try:
        file = _Waiting(io.FileIO(reading), "/proc/some")
        with pytest.raises(OSError, match="nothing to read yet"):
            file.read()
        os.write(writing, b"some")
        assert file.read(10) == b"some"
        with pytest.raises(OSError, match="nothing to read yet"):
            file.read(10)
    finally:
        os.close(writing)


def test_the_name_must_be_possible_and_the_size_within_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", 5) == read_regular(tmp_path / "file") == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_regular(tmp_path / "file", 4)
    for name in ("a\0b", "a\ud800b"):
        assert not possible(name)
        with pytest.raises(OSError, match="cannot be the name of a file"):
            open_regular(Path(name))
    assert possible("caf\udce9")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000, b"\xff", '{"a": ' * 100_000])
def test_what_is_no_object_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_object(text)
