"""Ctrl-C: a command ends with a sentence and the code of the signal, never with a traceback."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

SECOND = """
import atexit, os, signal, sys
from zoo.cli import train

def interrupted(arguments):
    raise KeyboardInterrupt

train._train = interrupted
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv = ["zoo-train"]
sys.exit(train.main())
"""


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("module", "inner", "arguments"),
    [("report", "_report", ["bench"]), ("bench", "_bench", []), ("train", "_train", [])],
)
def test_a_command_says_that_it_was_interrupted(
    module: str, inner: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = importlib.import_module(f"zoo.cli.{module}")
    monkeypatch.setattr(command, inner, interrupt)
    assert command.main(arguments) == 130
    assert f"zoo-{module}: interrupted; the same command " in capsys.readouterr().err


def test_an_export_says_that_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("zoo.generation.open_run.open_run", interrupt)
    from zoo.cli.export import main

    assert main(["run", "exported"]) == 130
    assert capsys.readouterr().err == "zoo-export: interrupted\n"


def test_a_second_signal_while_python_ends_shows_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", SECOND], capture_output=True, text=True)
    assert done.returncode == -2 and "Traceback" not in done.stderr and "interrupted" in done.stderr
