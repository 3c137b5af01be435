"""Reports and benches of many runs: linear in their number, within limits of processor time and memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.made_up_results import many

from zoo.bench.store import FILE, merged
from zoo.bench.suite_notes import SUITES, read_suite_notes
from zoo.cli.bench import main
from zoo.report.findings import Findings
from zoo.report.grouping import by_method
from zoo.report.pages import markdown
from zoo.report.selection import CURVES, FORESTS, PANELS, curves_drawn, differences_drawn, left_out
from zoo.report.tensorboard import SOME, _in_tensorboard

REPORT = "import sys; from zoo.cli.report import main; sys.exit(main(sys.argv[1:]))"
BENCH = (
    "import sys; from zoo.bench import freshness; freshness.corpus_fingerprint = lambda arm: 'x';"  # as runs that pretend
    "from zoo.cli.bench import main; code = main(sys.argv[1:]); print('torch:', 'torch' in sys.modules); sys.exit(code)"
)


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
    seconds, kilobytes = used([sys.executable, "-c", REPORT, str(tmp_path)])
    assert seconds <= 30 and kilobytes <= 1e6


@pytest.mark.slow
def test_a_bench_beside_fifty_thousand_runs(settings: list[str], tmp_path: Path, quick: list[str]) -> None:
    """Planning, store and report: at most 30 seconds of processor time, and clearly less than 1 GB in any process."""
    flags = bench_beside(tmp_path, 50_000, settings)
    seconds, kilobytes = used([sys.executable, "-c", BENCH, *flags])
    assert seconds <= 30 and kilobytes <= 0.85e6


def test_a_bench_of_what_is_stored_keeps_no_torch(settings: list[str], tmp_path: Path, quick: list[str]) -> None:
    """Which would be most of its memory for as long as it runs."""
    flags = bench_beside(tmp_path, 9, settings)
    done = subprocess.run([sys.executable, "-c", BENCH, *flags], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "torch: False", done.stderr
    assert "to train" not in done.stdout and "| v1_m3 | method |" in done.stdout


def bench_beside(folder: Path, runs: int, settings: list[str]) -> list[str]:
    """The flags of a bench all of whose runs, which only pretended, are in a store beside so many others."""
    store = folder / "bench"
    flags = ["--gin", "v1_m3", "--seeds", "3", "--store", str(store), "--set", *settings]
    assert main(flags) == 0
    many(folder / "others", runs)
    with (store / FILE).open("ab") as file:
        file.write((folder / "others" / FILE).read_bytes())
    notes = [json.loads((of / SUITES).read_bytes()) for of in (store, folder / "others")]
    (store / SUITES).write_text(json.dumps(notes[0] | notes[1]))
    return flags


def used(command: list[str]) -> tuple[float, float]:
    """Seconds of processor time of a command and its children, and the kilobytes of the largest of them."""
    measured = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", measured, *command], capture_output=True, text=True, check=True)
    seconds, kilobytes = map(float, done.stdout.split())
    return seconds, kilobytes


def test_a_report_needs_no_torch(tmp_path: Path) -> None:
    """Which would be most of its memory, and seconds of a small one."""
    many(tmp_path, 9)
    code = f"import sys; from zoo.cli.report import main; code = main([{str(tmp_path)!r}]); print('torch' in sys.modules, code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False 0", done.stderr
    assert list((tmp_path / "tensorboard").glob("report/events.*"))
