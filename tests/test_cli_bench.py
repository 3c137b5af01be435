"""The commands `zoo-bench` and `zoo-report`: what they say, plan, merge and refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zoo import config, forecast
from zoo.arms import Arm
from zoo.cli import report as report_command
from zoo.cli.bench import main
from zoo.store import Store


def test_a_bench_says_how_much_is_left(
    settings: list[str], tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--gin", "v1_m3", "--seeds", "3", "--store", str(tmp_path / "bench"), "--set", *settings]) == 0
    told = [line.rpartition("; ")[2] for line in capsys.readouterr().out.splitlines() if "valid loss" in line]
    assert [line.partition(" to go, about 0:00")[0] for line in told[:1] + told[2:5]] == ["1", "3", "2", "1"]
    assert "to go" not in told[1] and "to go" not in told[5]


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
        return forecast.Pace(10.0, 1.0)

    monkeypatch.setattr(forecast, "pace", pace)
    command = ["--gin", "v1_m3", "--seeds", "3", "--store", str(tmp_path / "bench"), "--set", *settings]

    def plan(*more: str) -> list[list[str]]:
        assert main([*command, *more, "--plan"]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [
            [cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith(("| base", "| v1"))
        ]

    assert [row[6:9] for row in plan()] == [["3", "3", "0:42"]] * 2  # 10 s and 4 steps each
    assert plan()[1][9] == "parameters +0.000%, flops +0.000%"
    assert main([*command, "suite.lrs = (0.5, 1.0)"]) == 0
    capsys.readouterr()
    assert [row[7] for row in plan()] == ["2", "2"]
    assert [row[7] for row in plan("suite.lrs = (0.5, 1.0)")] == ["0", "0"]
    assert [row[7] for row in plan("suite.lrs = (0.5, 2.0)")] == ["1 to 3", "1 to 3"]  # should 2.0 be the better one
    assert len(quick) == 9


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
    assert "best of Version 1" in page.read_text()
    assert report_command.main([str(tmp_path)]) == 2
    assert "has no results.jsonl" in capsys.readouterr().err
    assert report_command.main([one, "--results", str(tmp_path / "no" / "page.md")]) == 2
    assert "No such file" in capsys.readouterr().err


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


@pytest.mark.parametrize("suite", ["v1", "v2", "v3", "v4", "skip", "weak_recurrence", "smoke"])
def test_suites_name_methods_that_exist(suite: str) -> None:
    loaded = config.load([f"suites/{suite}"])
    for name in loaded.build("suite").methods:
        for part in name.split("+"):
            assert config.find(part).exists()
