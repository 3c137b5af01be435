"""A store behind an address: what a bench reads and writes of it, and one bench at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zoo.engines import mirror as mirrors
from zoo.engines.mirror import HOLDER, Mirror
from zoo.errors import ZooError


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mirrors, "BEAT", 0.1)
    return Mirror(f"file://{tmp_path}/far")


def quiet(text: str) -> None:
    pass


def test_what_changes_here_goes_there_and_what_is_there_comes_here(mirror: Mirror) -> None:
    mirror.place.write("results.jsonl", b"one\n")
    mirror.place.write("runs/a/summary.json", b"{}")
    mirror.place.write("runs/a/checkpoints/step_00000001.0123456789abcdef.pt", b"large")
    with mirror.held(quiet):
        assert sorted(path.name for path in mirror.folder.iterdir()) == ["results.jsonl"]
        mirror.fetch(mirror.folder / "runs" / "a")
        assert [path.name for path in (mirror.folder / "runs" / "a").rglob("*")] == ["summary.json"]
        (mirror.folder / "results.jsonl").write_text("one\ntwo\n")
        (mirror.folder / "configs").mkdir()
        (mirror.folder / "configs" / "a.gin").write_text("x = 1")
        mirror.push()
        assert mirror.place.read("results.jsonl") == b"one\ntwo\n"
        (mirror.folder / "report.html").write_text("a report")
    assert mirror.place.read("report.html") == b"a report" and mirror.place.read("configs/a.gin") == b"x = 1"
    assert mirror.place.read(HOLDER) is None
    (mirror.folder / "results.jsonl").write_text("left by a bench that died")
    mirror.pull()
    assert (mirror.folder / "results.jsonl").read_text() == "one\ntwo\n"


def test_a_run_that_was_set_aside_here_is_set_aside_there(mirror: Mirror) -> None:
    mirror.pull()
    mirror.place.write("runs/a/config.gin", b"x = 1")
    mirror.place.write("runs/b/config.gin", b"x = 1")
    mirror.fetch(mirror.folder / "runs" / "b")
    mirror.hand_out((), [mirror.folder / "runs" / "a", mirror.folder / "runs" / "b"])
    names = mirror.place.names("runs")
    assert "b/config.gin" in names and "a/config.gin" not in names
    assert any(name.startswith("a-before-") for name in names)


def test_one_bench_at_a_time(mirror: Mirror, tmp_path: Path) -> None:
    lines: list[str] = []
    with mirror.held(quiet):
        other = Mirror(mirror.place.address)
        with pytest.raises(ZooError, match="another zoo-bench is working on file://"), other.held(lines.append):
            pass
        assert len(lines) == 1 and "a sign of life" in lines[0]
    with other.held(quiet):  # it is over
        pass


def test_a_bench_that_died_holds_nothing(mirror: Mirror) -> None:
    mirror.place.write(HOLDER, json.dumps({"bench": "dead", "count": 7}).encode())
    with mirror.held(quiet):
        pass
    mirror.place.write(HOLDER, b"[1]")
    with mirror.held(quiet):
        pass
