"""A run outlives whoever reads what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import tiny_training

SPEAKS = """
import os, sys
from pathlib import Path
from zoo.cli.output import outlast_readers
outlast_readers()
files = [open(sys.argv[1], "w")]  # a file of the run must not get the number of a closed output
for _ in range(100):
    print("out", "x" * 1000, flush=True)
    print("err ü", "x" * 1000, file=sys.stderr)
    os.write(2, b"stray")
print("at the end")
files[0].write("whole")
"""


def speaks(into: Path, redirection: str) -> None:
    """Run it in a shell that redirects its output; it must get to its end."""
    into.unlink(missing_ok=True)
    command = f'"$0" -c "$1" "$2" {redirection}; echo "${{PIPESTATUS[0]}}" >"$2.code"'
    subprocess.run(["bash", "-c", command, sys.executable, SPEAKS, str(into)], check=True, capture_output=True)
    assert into.read_text() == "whole", redirection
    assert Path(f"{into}.code").read_text() == "0\n", redirection


@pytest.mark.parametrize(
    "redirection",
    [
        "2>&1 | head -n 1",
        "| head -n 1",
        "2>/dev/full",
        ">/dev/full",
        ">/dev/full 2>&1",
        "2>&-",
        ">&-",
        ">&- 2>&-",
        "<&- >&- 2>&-",
        "",
    ],
)
def test_it_goes_on_to_its_end(tmp_path: Path, redirection: str) -> None:
    speaks(tmp_path / "file", redirection)


def test_what_can_be_read_is_read(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SPEAKS, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"})
    assert done.stdout.count("out x") == 100 and done.stdout.endswith("at the end\n") and done.returncode == 0
    assert done.stderr.count("err ü x") == 100


@pytest.mark.parametrize(
    "redirection",
    [
        "2>&1 | head -n 1",
        pytest.param("2>/dev/full >/dev/full", marks=pytest.mark.slow),
        pytest.param("2>&- >&-", marks=pytest.mark.slow),
    ],
)
def test_a_run_trains_on_and_writes_its_summary(tmp_path: Path, redirection: str) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    settings = [f"data.corpus='{tiny_training.write_corpus(corpus)}'", f"data.cache='{tmp_path / 'cache'}'"]
    settings += ["train.steps=6", "train.validate_every=1", "train.device='cpu'", "model.depth=1"]
    run = tmp_path / "run"
    command = [sys.executable, "-m", "zoo.cli.train", "--gin", "sizes/tiny", "--set", *settings, "--folder", str(run)]
    shell = f'"$@" {redirection}; exit "${{PIPESTATUS[0]}}"'
    assert subprocess.run(["bash", "-c", shell, "bash", *command], timeout=300).returncode == 0
    assert '"status": "finished"' in (run / "summary.json").read_text()
