"""One damaged file costs one run, never the whole bench."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.pretend_bench import PretendLauncher, folder_of

from zoo.bench import test_split
from zoo.bench.launch import TEST_SPLIT, Task
from zoo.bench.store import FILE, Store
from zoo.cli.bench import main


@pytest.fixture
def bench(settings: list[str], tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The command of a bench that has been run, and whose results are lost; its folders are there."""
    command = ["--gin", "v1_m3", "--seeds", "2", "--store", str(tmp_path / "bench"), "--set", *settings]
    assert main(command) == 0
    (tmp_path / "bench" / FILE).unlink()
    for folder in (tmp_path / "bench" / "runs").iterdir():
        (folder / "test.json").unlink()
    quick.clear()
    capsys.readouterr()
    return command


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("metrics.jsonl", b"}{\n"),
        ("metrics.jsonl", b"\xff\x00\n"),
        ("metrics.jsonl", b'{"step": 3}\n'),
        ("versions.json", b"{"),
        ("versions.json", b"[]"),
        ("operative.gin", b"\xff\xfe"),
        ("summary.json", b"{"),
    ],
)
def test_a_damaged_run_is_set_aside_and_run_again(
    file: str, content: bytes, bench: list[str], tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str],
    launcher: PretendLauncher,
) -> None:  # fmt: skip
    (folder,) = (tmp_path / "bench" / "runs").glob("v1_m3-s2-*")
    (folder / file).write_bytes(content)
    _resume(launcher)
    assert main(bench) == 0
    out = capsys.readouterr().out
    assert f"v1_m3 (method, sequential, seed 2): {folder / file} cannot be read" in out and "it is run again" in out
    assert (folder.parent / f"{folder.name}-before-1" / file).read_bytes() == content
    assert len(Store(tmp_path / "bench").read()) == 4 and "| v1_m3 | 2 |" in out


def _resume(launcher: PretendLauncher) -> None:
    """Pretended runs whose folder is there have ended already."""

    def perform(task: Task) -> None:
        if task.module == TEST_SPLIT or not folder_of(task).exists():
            launcher.pretend(task)

    launcher.perform = perform


def test_notes_of_another_shape_are_set_aside(
    bench: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], launcher: PretendLauncher
) -> None:
    _resume(launcher)
    notes = tmp_path / "bench" / "suites.json"
    notes.write_text('{"a": 3}')
    assert main(bench) == 0
    assert "suites.json cannot be read and was moved to suites.json-damaged-1" in capsys.readouterr().err
    assert json.loads(notes.read_text())[""]["arms"]


@pytest.mark.parametrize("text", ["{", "[]", '{"loss": "x"}', '{"loss": 1.0, "diverged": 3}', "{}", "[" * 100_000])
def test_a_test_loss_that_cannot_be_read_was_not_measured(text: str, tmp_path: Path) -> None:
    (tmp_path / test_split.FILE).write_text(text)
    assert test_split.read_test_loss(tmp_path) is None
    (tmp_path / test_split.FILE).write_text('{"loss": 1.5, "diverged": false}')
    assert test_split.read_test_loss(tmp_path) == (1.5, False)


@pytest.mark.slow
def test_a_run_without_checkpoints_costs_no_other_its_test(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    command = [sys.executable, "-m", "zoo.bench.test_split", str(tmp_path / "one"), str(tmp_path / "two")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.returncode == 2 and str(tmp_path / "one") in done.stderr and str(tmp_path / "two") in done.stderr
