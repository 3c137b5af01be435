"""Reports of many runs: linear in their number, within limits of processor time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.made_up_results import many

from zoo.bench.store import merged
from zoo.bench.suite_notes import read_suite_notes
from zoo.report.findings import Findings
from zoo.report.grouping import by_method
from zoo.report.pages import markdown
from zoo.report.selection import CURVES, FORESTS, PANELS, curves_drawn, differences_drawn, left_out
from zoo.report.tensorboard import SOME, _in_tensorboard

REPORT = "import sys; from zoo.cli.report import main; sys.exit(main(sys.argv[1:]))"


def test_two_thousand_runs_are_read_and_judged_in_seconds(tmp_path: Path) -> None:
    """Everything but the drawing, which has its own limits."""
    many(tmp_path, 2000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    found = Findings.of(merged([tmp_path]), read_suite_notes([tmp_path]))
    text = markdown(found)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 6.0
    assert len(found.arms) == 667 and text.count("| m0_3 |") == 5  # three verdicts, its cost, the arm
    assert len(differences_drawn(found)) == FORESTS
    assert sum(len(by_method(of)) for of in curves_drawn(found)) == CURVES * PANELS
    assert len(_in_tensorboard(found)) == SOME
    assert "learning curves and learned values of 12 of 619 methods, differences of 4 of 48 tables" in left_out(found)


@pytest.mark.slow
def test_fifty_thousand_runs(tmp_path: Path) -> None:
    """At most 30 seconds of processor time and 1 GB."""
    many(tmp_path, 50_000)
    measured = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    command = [sys.executable, "-c", measured, sys.executable, "-c", REPORT, str(tmp_path)]
    seconds, kilobytes = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert seconds <= 30 and kilobytes <= 1e6


def test_a_report_needs_no_torch(tmp_path: Path) -> None:
    """Which would be most of its memory, and seconds of a small one."""
    many(tmp_path, 9)
    code = f"import sys; from zoo.cli.report import main; code = main([{str(tmp_path)!r}]); print('torch' in sys.modules, code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False 0", done.stderr
    assert list((tmp_path / "tensorboard").glob("report/events.*"))
