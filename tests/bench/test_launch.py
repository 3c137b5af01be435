"""Tasks as processes on this machine: their environment, how they end, and that they can be stopped."""

from __future__ import annotations

import importlib
import os
import signal
import time
from pathlib import Path

import pytest

from zoo.bench import launch
from zoo.bench.launch import Ending, LocalLauncher, Task, signals_as_interrupts

CHATTY = """
import sys
for line in range(20):
    print("line", line, file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""
SAVING = """
import pathlib, signal, sys, time
def save(*_):
    pathlib.Path(sys.argv[1], "saved").touch()
    sys.exit(3)
signal.signal(signal.SIGTERM, save)
pathlib.Path(sys.argv[1], "started").touch()
time.sleep(60)
"""
ENVIRONMENT = """
import json, os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(json.dumps([os.environ["OMP_NUM_THREADS"], sys.path, sys.stdin.isatty()]))
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("chatty", CHATTY), ("saving", SAVING), ("environment", ENVIRONMENT)):
        (tmp_path / f"{name}_task.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def task(module: str, *arguments: str, cores: int = 1) -> Task:
    return Task(title=f"{module} {arguments}", module=f"{module}_task", arguments=arguments, cores=cores)


def endings(launcher: LocalLauncher, number: int) -> list[Ending]:
    """So many tasks that have ended."""
    ended: list[Ending] = []
    until = time.monotonic() + 60
    while len(ended) < number:
        assert time.monotonic() < until, "it took too long"
        ended += launcher.wait(1.0)
    return ended


@pytest.mark.parametrize("name", [launch.TRAIN, launch.TEST_SPLIT])
def test_modules_that_are_known_by_name_can_be_run(name: str) -> None:
    assert callable(importlib.import_module(name).main)


def test_a_failure_has_the_last_lines(modules: Path) -> None:
    launcher = LocalLauncher(2)
    well, badly = task("chatty", "0"), task("chatty", "7")
    for each in (well, badly):
        launcher.submit(each)
    by_task = dict(endings(launcher, 2))
    launcher.stop()
    assert by_task[well] is None
    failure = by_task[badly]
    assert failure is not None and failure.reason == "7"
    assert failure.last_lines.splitlines() == [f"line {i}" for i in range(8, 20)]
    assert failure.of("it").startswith("it failed (7):\nline 8\n")


def test_a_task_has_its_cores_and_no_working_directory(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/tmp")
    launcher = LocalLauncher()
    launcher.submit(task("environment", str(modules / "seen"), cores=3))
    (ending,) = endings(launcher, 1)
    launcher.stop()
    assert ending.failure is None
    text = (modules / "seen").read_text()
    assert text.startswith('["3", ["') and '""' not in text and text.endswith("false]")


def test_what_runs_can_save_when_all_is_stopped_and_what_waits_is_not_begun(modules: Path) -> None:
    folders = [modules / "one", modules / "two"]
    launcher = LocalLauncher(1)
    for folder in folders:
        folder.mkdir()
        launcher.submit(task("saving", str(folder)))
    until = time.monotonic() + 60
    while not (folders[0] / "started").exists():
        assert time.monotonic() < until, "it took too long"
        assert not launcher.wait(0.05)
    launcher.stop()
    assert (folders[0] / "saved").exists() and not list(folders[1].iterdir())


def test_tasks_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_available_cores", lambda: 8)
    assert [LocalLauncher(capacity).cores for capacity in (1, 3, 8, 20)] == [8, 2, 1, 1]


@pytest.mark.parametrize("number", launch.STOP_SIGNALS)
def test_a_signal_to_the_bench_is_an_interrupt(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may ignore it, as nohup does
    with pytest.raises(KeyboardInterrupt), signals_as_interrupts():
        os.kill(os.getpid(), number)
        time.sleep(10)
