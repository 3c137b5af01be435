"""The commands `zoo-bench` and `zoo-report`: what they say, plan, merge and refuse."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.made_up_results import result

from zoo.bench import forecast
from zoo.bench.arms import Arm, Job, arms_of
from zoo.bench.method_names import parse_name
from zoo.bench.schedule import Schedule
from zoo.bench.store import Store
from zoo.bench.suite import Suite
from zoo.cli import report as report_command
from zoo.cli.bench import main
from zoo.config import gin_files, load


def test_a_bench_says_how_much_is_left(
    settings: list[str], tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--gin", "v1_m3", "--seeds", "3", "--store", str(tmp_path / "bench"), "--set", *settings]) == 0
    out = capsys.readouterr().out
    assert "6 runs to train, 1 at a time; then the test split for 6 runs" in out
    ends = [line.rpartition("; ")[2] for line in out.splitlines() if "valid loss" in line]
    assert [line.partition(",")[0] for line in ends] == [f"run {i} of 6" for i in range(1, 7)]
    assert all(line.endswith(" left") for line in ends)  # the test split is to come


def test_a_bench_moves_inside_a_run(settings: list[str], tmp_path: Path) -> None:
    """It says how far a run is, and what is left: a run and a half of two, then nothing."""
    arm = arms_of([], settings, Suite(), None)[0]
    jobs = [Job(arm, seed, 1.0) for seed in (1, 2)]
    lines: list[str] = []
    schedule = Schedule(jobs, say=lines.append)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"kind": "train", "step": 1}\n{"kind": "valid", "step": 2}\n{"kind": "tra')
    with schedule:
        schedule.start(jobs[0], folder)
        schedule._began -= 30.0  # half a run took half a minute
        schedule._last_line -= 100.0
        schedule.tick()
        schedule.tick()  # not again so soon
        assert schedule.after(jobs[0]) == "; run 1 of 2, about 0:30 left"
        schedule.start(jobs[1], folder)
        assert schedule.after(jobs[1]) == "; run 2 of 2"
    assert lines == ["2 runs to train, 1 at a time", "run 1 of 2: baseline (seed 1), step 2 of 4, about 1:30 left"]


def test_one_bench_at_a_time(settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(tmp_path / "bench").held():
        assert main(["--gin", "v1_m3", "--store", str(tmp_path / "bench"), "--set", *settings]) == 2
    assert "another zoo-bench is working in" in capsys.readouterr().err


def test_a_plan_counts_what_is_missing(
    settings: list[str],
    tmp_path: Path,
    quick: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def pace(arm: Arm, threads: int) -> forecast.Pace:
        return forecast.Pace(start=10.0, step=1.0, low=0.5, high=2.0)

    monkeypatch.setattr(forecast, "pace", pace)
    command = ["--gin", "v1_m3", "--seeds", "3", "--store", str(tmp_path / "bench"), "--set", *settings]

    def plan(*more: str) -> list[list[str]]:
        assert main([*command, *more, "--plan"]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [
            [cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith(("| base", "| v1"))
        ]

    assert [row[6:9] for row in plan()] == [["3", "3", "0:42"]] * 2  # 10 s and 4 steps each
    assert main([*command, "--plan"]) == 0
    assert "about 1:24 (1:12 to 1:48) in total, one run at a time (estimated from a few" in capsys.readouterr().out
    assert plan()[1][9] == "parameters +0.000%, flops +0.000%"
    assert main([*command, "suite.lrs = (0.5, 1.0)"]) == 0
    capsys.readouterr()
    assert [row[7] for row in plan()] == ["3", "3"]
    assert [row[7] for row in plan("suite.lrs = (0.5, 1.0)")] == ["0", "0"]
    assert [row[7] for row in plan("suite.lrs = (0.5, 2.0)")] == ["1 to 4", "1 to 4"]  # should 2.0 be the better one
    assert len(quick) == 11  # two rates on the tuning seed, three seeds at the better one, the test split


def test_arms_of_as_many_flops_get_the_same_forecast(settings: list[str]) -> None:
    """Whatever the runs of one of them took in the store; one plan is like the next."""
    plain, method = arms_of(["v1_m3"], settings, Suite(), None)
    alike = {"settings": Job(plain, 1, 1.0).settings, "steps": 4, "flops": plain.flops}
    kept = [result("baseline", s, 3.0, seconds=float(s), **alike) for s in range(1, 12)]
    kept.append(result("other", 1, 3.0, seconds=900.0, **alike | {"settings": {"data.length": "1024"}}))
    found = forecast.Forecast([plain, method], kept, 1)
    assert method.flops == plain.flops and found.of(plain) == found.of(method)
    assert found.of(plain) == pytest.approx((2.0, 6.0, 10.0)) and "11 runs in the store" in found.basis


def test_of_a_large_step_some_rows_are_measured(settings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    arm = arms_of([], [*settings, "train.accumulate = 2", "data.batch_size = 8"], Suite(), None)[0]
    assert forecast.measured_step(arm) == (Job(arm, 1, 1.0).text, 1.0)
    row = arm.tokens_per_step * arm.flops / 16
    for most, rows in ((5.5 * row, 5), (0.5 * row, 1), (9 * row, 8)):
        monkeypatch.setattr(forecast, "LARGEST", most)
        text, share = forecast.measured_step(arm)
        assert f"data.batch_size = {rows}\n" in text and "train.accumulate = 1\n" in text
        assert share == pytest.approx(rows / 16)


def test_what_is_too_large_to_be_measured_is_as_fast_per_flop_as_what_is_smaller(
    settings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = arms_of([], settings, Suite(), None)[0]
    large = replace(arm, flops=100 * arm.flops)
    monkeypatch.setattr(forecast, "pace", lambda *_: forecast.Pace(start=2.0, step=4.0, low=3.0, high=5.0))
    monkeypatch.setattr(forecast, "LARGEST", 10 * arm.flops * {**arm.defaults, **arm.values}["data.length"])
    below = forecast.Forecast([arm], [], 1)
    found = forecast.Forecast([large], [], 1, below).of(large)
    assert found == pytest.approx(tuple(2.0 + arm.steps * each for each in (300.0, 400.0, 500.0)))
    assert forecast.Forecast([arm], [], 1, below).of(arm) == pytest.approx(below.of(arm))


def test_a_pace_is_measured_once_an_hour(settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Worker:
        times = iter([9.0, *range(1, 99)])

        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> Worker:
            return self

        def __exit__(self, *_: object) -> None: ...
        def time(self, steps: int) -> float:
            return float(next(self.times))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(forecast, "Worker", Worker)
    arm = arms_of([], settings, Suite(), None)[0]
    first = forecast.pace(arm, 1)
    assert first.step == 8.0 and first.low < first.step < first.high  # one slow step moves no median
    assert forecast.pace(arm, 1) == first and forecast.pace(arm, 2) != first


def test_a_plan_without_its_corpus(settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(tmp_path / "bench").append(result("baseline", 1, 3.0, settings={"data.batch_size": "4", "data.length": "16"}))
    command = ["--gin", "v1_m3", "--store", str(tmp_path / "bench"), "--plan", "--set", *settings]
    assert main([*command, "data.corpus = 'no/such/text'"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("cannot run here: ") and "no/such/text" in out.splitlines()[0] and "| v1_m3 |" in out


def test_reports_are_merged_and_compared(
    settings: list[str], tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    for store, method in ((one, "v1_m3"), (other, "v1_m4")):
        assert main(["--gin", method, "--seeds", "2", "--store", store, "--set", *settings]) == 0
    capsys.readouterr()
    page = tmp_path / "RESULTS.md"
    command = [one, other, "--into", str(tmp_path / "both"), "--against", one, "--results", str(page)]
    assert report_command.main(command) == 0
    out = capsys.readouterr().out
    assert "| v1_m3 | 2 |" in out and "| v1_m4 | 2 |" in out
    for file in ("report.md", "report.html"):
        assert "Against the earlier results" in (tmp_path / "both" / file).read_text()
    assert "[v1_m3](docs/results/v1_m3.md)" in page.read_text()
    assert "best of Version 1" in (page.parent / "docs/results/v1_m3.md").read_text()
    assert report_command.main([str(tmp_path)]) == 2
    assert "has no results.jsonl" in capsys.readouterr().err
    assert report_command.main([one, "--results", str(tmp_path / "no" / "page.md")]) == 2
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name a method"),
        (["--gin", "v1_m3", "--set", "suite.baselines = ('token',)"], "each one of 'none', 'parameters'"),
        (["--gin", "v1_m3", "--jobs", "0"], "--jobs"),
        (["--gin", "v1_m3", "--seeds", "0"], "at least 1"),
        (["--gin", "v1_m3", "--lrs", "1,1e999"], "write numbers"),
        (["--gin", "v1_m3", "--lrs", "1,1"], "each once"),
        (["--gin", "v1_m3", "--lrs", "abc"], "--lrs 'abc': write numbers"),
        (["--gin", "v1_m3", "--lrs", ""], "--lrs '': name one or several"),
        (["--methods", "v1_m3,"], "--methods 'v1_m3,': name one or several"),
        (["--suite", "v11"], "there is no suite v11 (nearest: v1"),
        (["--suite", "no/such.gin"], "there is no suite no/such.gin"),
        (["--gin", "v1_m3", "--set", "train.seed = 7"], "not train.seed"),
        (["--gin", "v1_m3", "--set", "data.corpus = 'no/such/text'"], "no/such/text"),
        (["--gin", "v1_m3", "--lrs", "-1"], "positive"),
        (["--gin", "v1_m33"], "v1_m3"),
        (["--suite", "v1", "--gin", "hosts/parallel"], "bind suite.hosts"),
        (["--suite", "v1", "--methods", "v1_m3,v1_m33"], "v1_m33: "),
        (["--gin", "sizes/tiny", "--set", "suite.baselines = ()"], "nothing to run"),
    ],
)
def test_bad_input_gets_a_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert sentence in capsys.readouterr().err


def test_a_file_where_a_folder_should_be(
    settings: list[str], tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file, store = tmp_path / "text.txt", tmp_path / "bench"
    command = ["--gin", "v1_m3", "--seeds", "1", "--set", *settings, "--store"]
    assert main([*command, str(file)]) == 2
    assert f"--store {file} cannot be a folder: File exists" in capsys.readouterr().err
    assert main([*command, str(store)]) == 0
    assert report_command.main([str(store), "--into", str(file)]) == 2
    assert f"--into {file} cannot be a folder: File exists" in capsys.readouterr().err


def test_a_reader_may_have_seen_enough(settings: list[str], tmp_path: Path, quick: list[str]) -> None:
    store = tmp_path / "bench"
    assert main(["--gin", "v1_m3", "--seeds", "1", "--set", *settings, "--store", str(store)]) == 0
    command = [sys.executable, "-m", "zoo.cli.report", str(store)]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reader.stdout is not None
    reader.stdout.close()  # before it says anything
    assert reader.communicate()[1] == b"" and reader.returncode == 0


@pytest.mark.parametrize("suite", ["v1", "v2", "v3", "v4", "skip", "weak_recurrence", "smoke", "relatives", "mixers"])
def test_suites_name_methods_that_exist(suite: str) -> None:
    loaded = load.load_config([f"suites/{suite}"])
    for name in loaded.build("suite").methods:
        for file in parse_name(name).files:
            assert gin_files.find_gin_file(file).exists()
