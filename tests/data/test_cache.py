from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zoo.data.cache import Cache, remove_orphans
from zoo.errors import DataError


def _made(folder: Path) -> Path:
    """Write a file there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a").write_bytes(b"content")
    return folder / "a"


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
    assert Cache().with_folder(_made) == tmp_path / folder / "a"
    assert Cache(str(tmp_path / "given")).with_folder(_made) == tmp_path / "given" / "a"


def test_who_finds_a_lock_taken_says_so_and_waits(tmp_path):
    code = """if True:
        import logging, sys
        from pathlib import Path
        from zoo.data.cache import held
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
        with held(Path(sys.argv[1]), "books"):
            print("held", flush=True)
            sys.stdin.readline()
    """
    command = [sys.executable, "-c", code, str(tmp_path / "sub" / "a.lock")]
    first = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
    assert first.stdout is not None and first.stdout.readline() == "held\n"
    second = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
    assert second.stdout is not None
    assert second.stdout.readline() == "another process prepares books: waiting for it\n"
    first.kill()  # the system lets go of the lock
    assert second.stdout.readline() == "held\n"
    second.communicate("\n", timeout=30)
    first.communicate()


def test_a_chosen_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file/cache cannot be written .* set data.cache"):
        Cache(str(tmp_path / "file" / "cache")).with_folder(_made)


def test_the_default_folder_need_not_be_writable(tmp_path, monkeypatch):
    monkeypatch.delenv("ZOO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    cache = Cache()
    assert cache.with_folder(_made).read_bytes() == b"content"
    assert cache.with_folder(lambda folder: folder) == cache.folder
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
        Cache().with_folder(_made)


@pytest.mark.parametrize("chosen", [True, False])
def test_a_full_disk_is_said(tmp_path, monkeypatch, chosen):
    def fill(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.delenv("ZOO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match="No space left on device.: make room, and the same command goes on"):
        Cache(str(tmp_path) if chosen else None).with_folder(fill)


TEMPORARY = """if True:
    import sys, time
    from zoo.data.cache import Cache
    cache = Cache()
    cache.with_folder(lambda folder: (folder.mkdir(parents=True, exist_ok=True), (folder / "a").write_bytes(b"content")))
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
