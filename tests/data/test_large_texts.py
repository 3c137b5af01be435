"""A gigabyte of text: preparing it takes bounded memory, and a start from it a moment (tools/benchmarks/data.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools/benchmarks/data.py"
MEGABYTES = 1000


@pytest.mark.slow  # a quarter of an hour and 2 GB of disk
def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    text = tmp_path / "text.jsonl"
    write = "import pathlib, runpy, sys; runpy.run_path(sys.argv[1])['write_text'](pathlib.Path(sys.argv[2]), int(sys.argv[3]))"
    subprocess.run([sys.executable, "-c", write, str(TOOL), str(text), str(MEGABYTES)], check=True)
    figures = {}
    for job in ("ours", "start"):
        command = [sys.executable, str(TOOL), "--job", job, "--text", str(text), "--folder", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        figures[job] = json.loads(done.stdout.splitlines()[-1])
    assert figures["ours"]["megabytes"] < 600 and figures["ours"]["tokens"] > 0.2 * text.stat().st_size
    assert figures["start"]["cpu"] < 2 and figures["start"]["megabytes"] < 100
