"""torchrun, as tests start it: on this machine alone, and what it printed where it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LAST = 6000  # characters of the output of ranks that failed


def torchrun(size: int, *arguments: str | Path) -> list[str]:
    """The command for so many ranks. They meet at the loopback address: the machine's own name may be known to nobody."""
    words = ("--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", size, *arguments)
    return [sys.executable, "-m", "torch.distributed.run", *map(str, words)]


def run_ranks(size: int, script: Path, folder: Path, seconds: float) -> None:
    """Run a script of tests/scripts that is given a folder; a failure shows the end of what its ranks printed.

    Ranks that end before they have written anything did not find each other, on a machine full of other tests: they are
    started once more.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    output = folder / "output.txt"
    output.touch()
    before = sorted(folder.iterdir())
    for _ in range(2):
        with output.open("a") as file:
            code = subprocess.run(
                torchrun(size, script, folder), timeout=seconds, env=environment, stdout=file, stderr=file
            ).returncode
        if not code:
            return
        if sorted(folder.iterdir()) != before:
            break
    pytest.fail(f"torchrun ended with {code}:\n{output.read_text()[-LAST:]}", pytrace=False)
