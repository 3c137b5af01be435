from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zoo.data.cache import Cache, remove_orphans
from zoo.errors import DataError


class _Maker:
    """Writes some bytes, and counts how often."""

    def __init__(self, content: bytes = b"content") -> None:
        self.content, self.calls = content, 0

    def __call__(self, file) -> None:
        self.calls += 1
        file.write(self.content)


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"ZOO_CACHE": "here", "XDG_CACHE_HOME": "there"}, "here"),
        ({"XDG_CACHE_HOME": "there"}, "there/zoo"),
        ({}, "home/.cache/zoo"),
    ],
)
def test_where_it_is(tmp_path, monkeypatch, variables, folder):
    for name in ("ZOO_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    assert Cache().get("a", _Maker()) == tmp_path / folder / "a"
    assert Cache(str(tmp_path / "given")).get("a", _Maker()) == tmp_path / "given" / "a"


def test_a_file_is_made_once(tmp_path):
    make = _Maker()
    for _ in range(3):
        assert Cache(str(tmp_path)).get("a", make).read_bytes() == b"content"
    assert make.calls == 1


@pytest.mark.parametrize("damage", ["truncate", "change", "empty", "no checksum", "bad checksum", "gone"])
def test_a_damaged_file_is_made_again(tmp_path, damage):
    make = _Maker()
    path = Cache(str(tmp_path)).get("a", make)
    checksum = path.with_name("a.sha256")
    if damage == "truncate":
        os.truncate(path, 3)
    elif damage == "change":
        path.write_bytes(b"c0ntent")
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "no checksum":
        checksum.unlink()
    elif damage == "bad checksum":
        checksum.write_bytes(b"\xff")
    else:
        path.unlink()
    assert Cache(str(tmp_path)).get("a", make).read_bytes() == b"content"
    assert make.calls == 2


def test_a_failure_leaves_nothing_behind(tmp_path):
    def fail(file) -> None:
        file.write(b"half")
        raise DataError("no")

    with pytest.raises(DataError):
        Cache(str(tmp_path)).get("a", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["a.lock"]


def test_processes_that_ask_at_once_make_a_file_once(tmp_path):
    code = """if True:
        import sys, time
        from zoo.data.cache import Cache
        def make(file):
            print("made", flush=True)
            time.sleep(0.5)  # the others ask meanwhile
            file.write(b"content")
        print("ready", flush=True)
        sys.stdin.readline()
        print(Cache(sys.argv[1]).get("a", make).read_bytes())
    """
    start = [sys.executable, "-c", code, str(tmp_path)]
    processes = [subprocess.Popen(start, stdin=-1, stdout=-1, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=30)[0] for process in processes]
    assert sorted(outputs) == ["b'content'\n", "b'content'\n", "made\nb'content'\n"]


def test_a_process_that_is_killed_while_it_writes_hinders_nobody(tmp_path):
    code = """if True:
        import sys, time
        from zoo.data.cache import Cache
        def make(file):
            file.write(b"half")
            file.flush()
            print("writing", flush=True)
            time.sleep(60)
        Cache(sys.argv[1]).get("a", make)
    """
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"writing\n"
    process.kill()
    process.wait()
    process.stdout.close()
    began = time.monotonic()
    assert Cache(str(tmp_path)).get("a", _Maker()).read_bytes() == b"content"
    assert time.monotonic() - began < 5


def test_a_chosen_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file/cache cannot be written .* set data.cache"):
        Cache(str(tmp_path / "file" / "cache")).get("a", _Maker())


def test_the_default_folder_need_not_be_writable(tmp_path, monkeypatch):
    monkeypatch.delenv("ZOO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    cache = Cache()
    assert cache.get("a", _Maker()).read_bytes() == b"content"
    assert cache.get("b", _Maker(b"other")).read_bytes() == b"other"
    assert len(cache.notes) == 1 and "cannot be written" in cache.notes[0]


def test_no_folder_at_all_is_said(tmp_path, monkeypatch):
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.delenv("ZOO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", none)
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: none())
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written .*, nor any temporary folder: set data.cache"):
        Cache().get("a", _Maker())


def test_a_full_disk_is_said(tmp_path):
    def fill(file) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match="No space left on device"):
        Cache(str(tmp_path)).get("a", fill)


def test_a_file_that_is_there_can_be_read_from_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    make = _Maker()
    Cache(str(tmp_path)).get("a", make)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("zoo.data.cache._lock", refuse)
    assert Cache(str(tmp_path)).get("a", make).read_bytes() == b"content"


def test_a_forged_file_is_made_again(tmp_path):
    make = _Maker()
    path = Cache(str(tmp_path)).get("a", make)
    path.write_bytes(b"forged")
    path.with_name("a.sha256").write_text(hashlib.sha256(b"forged").hexdigest())
    assert Cache(str(tmp_path)).get("a", make).read_bytes() == b"forged"  # nobody can know
    made = Cache(str(tmp_path)).get("a", make, lambda path: path.read_bytes() == b"content")
    assert made.read_bytes() == b"content"


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path):
    path = Cache(str(tmp_path)).get("a", _Maker())
    path.unlink()
    os.mkfifo(path)
    assert Cache(str(tmp_path)).get("a", _Maker()).read_bytes() == b"content"


TEMPORARY = """if True:
    import sys, time
    from zoo.data.cache import Cache
    cache = Cache()
    cache.get("a", lambda file: file.write(b"content"))
    print(cache.folder, flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_left_in_the_temporary_folder_is_removed(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("ZOO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", TEMPORARY], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    assert folder.parent == tmp_path and (folder / "a").exists()
    remove_orphans(tmp_path)
    assert (folder / "a").exists()  # its process lives
    process.kill()
    process.wait()
    process.stdout.close()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    Cache(str(tmp_path / "chosen"))
    assert not folder.exists()
