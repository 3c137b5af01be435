"""A real bench, tiny: arms, pairing, reuse, resumption."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.pretend_bench import PretendLauncher, folder_of, leave_run

from zoo.bench.arms import Job, arms_of
from zoo.bench.collect import interpolate, training_curve
from zoo.bench.launch import TEST_SPLIT, Failure, Task
from zoo.bench.seeds import runs_until_decided, seed_counts
from zoo.bench.store import Store
from zoo.bench.suite import Suite
from zoo.cli.bench import main
from zoo.config.load import load_config
from zoo.data import opening
from zoo.runs.run_folder import wait_until_free
from zoo.statistics.looks import chances_to_go_on, planned_looks


def test_arms_of_a_method_with_parameters(settings: list[str]) -> None:
    *plain, method = arms_of(["wr_8_2"], settings, Suite(), None)
    by_match = {arm.match: arm for arm in plain}
    assert by_match.keys() == {"none", "parameters", "flops"} and method.match == "method"
    assert set(method.baselines.values()) == {arm.id for arm in plain}
    assert method.parameters > by_match["none"].parameters
    one_width = 3 * 16 * 2  # parameters that one more unit of every FFN adds
    assert abs(by_match["parameters"].parameters - method.parameters) <= one_width / 2
    assert by_match["flops"].flops == pytest.approx(method.flops, rel=0.02)
    assert "model.temporal_mixing" in method.values
    assert not any("temporal" in key for arm in plain for key in arm.values)


def test_a_method_without_parameters_shares_one_baseline(settings: list[str]) -> None:
    plain, method = arms_of(["v1_m3"], settings, Suite(), None)
    assert plain.match == "none" and set(method.baselines.values()) == {plain.id}


def test_longer_training_as_a_match(settings: list[str]) -> None:
    suite = Suite(baselines=("tokens",))
    longer, method = arms_of(["v3_m1"], settings, suite, None)
    assert longer.steps > method.steps
    assert longer.steps * longer.flops == pytest.approx(method.steps * method.flops, rel=0.15)


def test_the_host_is_the_methods(settings: list[str]) -> None:
    for host in ("sequential", "parallel"):
        assert {arm.host for arm in arms_of(["v1_m1"], settings, Suite(), host)} == {host}


def test_seed_and_rate_tell_runs_apart_and_nothing_else(settings: list[str]) -> None:
    arm = arms_of([], settings, Suite(), None)[0]
    assert len({Job(arm, seed, lr).key for seed in (1, 2) for lr in (0.5, 1.0)}) == 4
    assert Job(arm, 1, 1.0).key == Job(arm, 1, 1.0).key


def test_arms_start_equal_and_see_the_same_batches(settings: list[str], tmp_path: Path) -> None:
    """For a seed: the same first weights in all that they share, and the same data in the same order."""
    import torch

    starts, batches = [], []
    for arm in arms_of(["wr_8_2"], settings, Suite(), None):
        (tmp_path / "arm.gin").write_text(Job(arm, 3, 1.0).text)
        loaded = load_config([tmp_path / "arm.gin"])
        data = loaded.build("data")
        built = loaded.build("model", vocab_size=data.tokenizer.vocab_size, max_length=data.length, seed=3)
        starts.append(dict(built.named_parameters()))
        reader = data.train(loaded.get("train.seed"))
        batches.append(torch.stack([next(reader) for _ in range(5)]))
    assert all(torch.equal(batches[0], other) for other in batches)
    for other in starts[1:]:
        same = [name for name, value in starts[0].items() if other[name].shape == value.shape]
        assert len(same) >= len(starts[0]) - 4  # all but the FFNs of a widened baseline
        assert all(torch.equal(starts[0][name], other[name]) for name in same)


def test_a_bench_from_end_to_end(settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "bench"
    command = ["--gin", "v1_m3", "--seeds", "2", "--lrs", "0.5,1", "--store", str(store), "--set", *settings]
    command.append("suite.costs = True")
    assert main(command) == 0
    out = capsys.readouterr().out
    results = Store(store).read()
    assert len(results) == 8  # two arms: two rates on the tuning seed, the better one on two seeds
    tested = [r for r in results.values() if r.test_loss is not None]
    assert len(tested) == 4 and {r.seed for r in tested} == {1, 2}
    for run in results.values():
        assert run.training and run.curve[-1][:3] == run.training[-1][:3] and run.curve[-1][2] > 0
    assert "Verdicts against the plain block" in out and (store / "report.html").exists()
    assert "v1_m3 (method, sequential): time × " in out and "≈" not in out
    lines = len((store / "results.jsonl").read_text().splitlines())
    runs = {path: path.stat().st_mtime_ns for path in (store / "runs").glob("*/summary.json")}
    assert main(command) == 0  # again: everything is there
    out = capsys.readouterr().out
    # The tuning runs, then the judged ones, which are counted together although seed 1 comes before the others.
    assert out.count("4 of 4 runs are in the store already") == 2 == out.count("already") and "to measure" not in out
    assert len((store / "results.jsonl").read_text().splitlines()) == lines
    assert runs == {path: path.stat().st_mtime_ns for path in (store / "runs").glob("*/summary.json")}
    row = json.loads((store / "results.jsonl").read_text().splitlines()[0])
    again = tmp_path / "again.gin"
    again.write_text(row["config"])
    assert load_config([again]).text == row["config"]  # a line is enough to run it again


def test_a_run_whose_defaults_have_changed_is_run_again(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "bench"
    command = ["--gin", "v1_m3", "--seeds", "1", "--store", str(store), "--set", *settings, "suite.baselines = ()"]
    assert main(command) == 0
    (row,) = Store(store).read().values()
    (run,) = (store / "runs").iterdir()
    assert row.settings["model.norm_eps"] == "1e-05"
    Store(store).append(dataclasses.replace(row, settings={**row.settings, "model.norm_eps": "0.1", "gone": "1"}))
    used = run / "operative.gin"
    used.write_text(used.read_text().replace("model.norm_eps = 1e-05", "model.norm_eps = 0.1"))
    capsys.readouterr()
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "model.norm_eps was 0.1 and is 1e-05" in out and "gone" not in out
    assert Store(store).read()[row.key].settings == row.settings
    assert {path.name for path in (store / "runs").iterdir()} == {run.name, f"{run.name}-before-1"}


def test_a_run_whose_corpus_has_changed_is_run_again(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "bench"
    command = ["--gin", "v1_m3", "--seeds", "1", "--store", str(store), "--set", *settings, "suite.baselines = ()"]
    assert main(command) == 0
    (tmp_path / "text.txt").write_text((tmp_path / "text.txt").read_text() + "\n\nOne more sentence.")
    opening._fingerprint_of.cache_clear()
    assert main(command) == 0
    assert "the corpus was" in capsys.readouterr().out
    assert len(list((store / "runs").iterdir())) == 2 and len(Store(store).read()) == 1


def test_baselines_that_a_second_bench_asks_for_are_compared(
    settings: list[str], tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--gin", "wr_8_2", "--seeds", "2", "--store", str(tmp_path / "bench"), "--set", *settings]
    assert main([*command, 'suite.baselines = ("none",)']) == 0
    assert "as many parameters" not in capsys.readouterr().out
    assert main(command) == 0
    assert "against a plain block with as many parameters" in capsys.readouterr().out
    assert sum("wr_8_2" in title for title in quick) == 2  # not run again


def test_a_better_rate_of_an_earlier_bench_is_reported(
    settings: list[str], tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--gin", "v1_m3", "--seeds", "2", "--store", str(tmp_path / "bench"), "--set", *settings]
    assert main([*command, "suite.lrs = (0.5, 1.0)"]) == 0  # earlier runs pretend to be better
    assert "in this store" not in capsys.readouterr().out
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "v1_m3 (method, sequential) did better at lr × 0.5 in this store" in out and "--lrs 0.5,1 runs" in out


def test_runs_end_with_their_bench(settings: list[str], tmp_path: Path) -> None:
    """Killed outright, it leaves no process behind, and the same command goes on at once."""
    store = tmp_path / "bench"
    longer = [*settings, "train.steps = 4000", "train.validate_every = 4000", "train.save_every = 4000"]
    command = [sys.executable, "-m", "zoo.cli.bench", "--gin", "v1_m3", "--seeds", "1", "--store", str(store)]
    killed = subprocess.Popen([*command, "--set", *longer, "suite.baselines = ()"])
    _until(lambda: any(file.stat().st_size for file in store.glob("runs/*/metrics.jsonl")))  # steps have been made
    killed.kill()
    killed.wait()
    (folder,) = (store / "runs").iterdir()
    with Store(store).held():  # nobody else is at work
        wait_until_free(folder, 60.0)
    assert json.loads((folder / "summary.json").read_text())["status"] == "interrupted"


def _until(done: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)


def test_another_learning_rate_is_another_arm(
    settings: list[str], tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--gin", "v1_m3", "--seeds", "2", "--store", str(tmp_path / "bench"), "--set", *settings]
    assert main(command) == 0
    first = capsys.readouterr().out.split("## Verdicts")[1]
    assert main([*command, "train.lr = 1e-5"]) == 0
    assert len({run.arm for run in Store(tmp_path / "bench").read().values()}) == 4
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out.split("## Verdicts")[1] == first


def test_a_bench_chooses_among_its_own_rates(settings: list[str], tmp_path: Path, quick: list[str]) -> None:
    command = ["--gin", "v1_m3", "--seeds", "2", "--store", str(tmp_path / "bench"), "--set", *settings]
    assert main([*command, "suite.lrs = (0.5, 1.0)"]) == 0  # earlier runs pretend to be better
    assert sum("seed 2" in title and "0.5" in title for title in quick) == 2
    assert main(command) == 0
    assert sum("seed 2" in title and "0.5" not in title for title in quick) == 2


def test_the_same_run_has_one_name(settings: list[str]) -> None:
    """Named in a suite with its host, or alone: nothing is trained twice."""
    alone, within = (arms_of(["v1_m3"], settings, Suite(), host) for host in (None, "sequential"))
    assert [arm.id for arm in alone] == [arm.id for arm in within]
    assert [Job(arm, 1, 1.0).key for arm in alone] == [Job(arm, 1, 1.0).key for arm in within]


def test_a_run_that_fails_ends_its_arm_alone(
    settings: list[str],
    tmp_path: Path,
    launcher: PretendLauncher,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def perform(task: Task) -> Failure | None:
        if task.title.startswith("v1_m3"):
            return Failure("1", "no memory")
        return launcher.pretend(task)

    launcher.perform = perform
    store = tmp_path / "bench"
    command = ["--methods", "v1_m3,v1_m4", "--seeds", "2", "--store", str(store), "--jobs", "2", "--set", *settings]
    assert main(command) == 1
    printed = capsys.readouterr()
    assert "v1_m3 (method, sequential, seed 1) failed (1):\nno memory" in printed.err and "seed 2" not in printed.err
    assert "| v1_m4 | 2 / 3 |" in printed.out
    launcher.perform = launcher.pretend
    assert main(command) == 0
    assert "| v1_m3 | 2 / 3 |" in capsys.readouterr().out


def test_an_interrupted_bench_goes_on(
    settings: list[str],
    tmp_path: Path,
    launcher: PretendLauncher,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def perform(task: Task) -> None:
        if len(launcher.titles) == 2:
            raise KeyboardInterrupt
        launcher.pretend(task)

    launcher.perform = perform
    command = ["--gin", "v1_m3", "--seeds", "2", "--store", str(tmp_path / "bench"), "--set", *settings]
    assert main(command) == 130 and launcher.stopped
    assert "the same command continues it" in capsys.readouterr().err
    launcher.perform = launcher.pretend
    assert main(command) == 0
    assert len(launcher.titles) == len(set(launcher.titles)) == 5  # four runs and the test split, each once


def test_a_method_whose_code_has_changed(
    settings: list[str],
    tmp_path: Path,
    quick: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["--gin", "v1_m3", "--seeds", "2", "--store", str(tmp_path / "bench")]
    assert main([*command, "--set", *settings]) == 0
    assert "has changed" not in capsys.readouterr().out
    monkeypatch.setattr("zoo.bench.arms.source_hashes", lambda found: ("other",))
    assert main([*command, "--set", *settings]) == 0
    assert "the code of residual.v1_m3 has changed since these runs" in capsys.readouterr().out
    done = len(quick)
    assert main([*command, "--again", "--set", *settings]) == 0
    assert [title[:5] for title in quick[done:]] == ["v1_m3", "v1_m3", "the t"]
    assert {path.name[-8:] for path in (tmp_path / "bench" / "runs").glob("v1*before*")} == {"before-1"}


def test_runs_whose_folders_are_gone_before_their_test(
    settings: list[str], tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "bench"
    command = ["--gin", "v1_m3", "--seeds", "2", "--store", str(store), "--set", *settings]
    assert main(command) == 0
    lines = [json.loads(line) for line in (store / "results.jsonl").read_text().splitlines()]
    (store / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines if not row["tested"]))
    shutil.rmtree(store / "runs")
    assert main(command) == 0
    assert "the folders are gone, and training starts again" in capsys.readouterr().out
    assert all(run.tested for run in Store(store).read().values())


@pytest.mark.parametrize("where", ["validation", "test"])
def test_a_loss_that_is_not_finite_is_a_divergence(
    settings: list[str], tmp_path: Path, launcher: PretendLauncher, where: str
) -> None:
    def perform(task: Task) -> None:
        if task.module == TEST_SPLIT and where == "test":
            for folder in task.arguments:
                (Path(folder) / "test.json").write_text('{"loss": null, "diverged": true}')
        elif task.title.startswith("v1_m3") and where == "validation":
            leave_run(folder_of(task), math.nan, steps=4)
        else:
            launcher.pretend(task)

    launcher.perform = perform
    store = tmp_path / "bench"
    command = ["--gin", "v1_m3", "--seeds", "2", "--store", str(store), "--set", *settings]
    for _ in range(2):
        assert main(command) == 0
        runs = Store(store).read().values()
        assert all(run.status == "diverged" for run in runs if run.name == "v1_m3" or where == "test")


def test_a_validation_stands_where_its_step_does() -> None:
    logged = [(10, 1000, 2.0, 4.0), (20, 2000, 6.0, 3.0)]
    assert interpolate(5, logged) == (5, 500, 1.0) and interpolate(10, logged) == (10, 1000, 2.0)
    assert interpolate(15, logged) == (15, 1500, 4.0) and interpolate(20, logged) == (20, 2000, 6.0)
    assert interpolate(25, logged) == (25, 2000, 6.0)  # what followed was not finite
    assert interpolate(5, []) == (5, 0, 0.0)


def test_the_training_curve_has_the_time_it_took() -> None:
    rows = [
        {"step": 10, "tokens": 100, "tokens_per_second": 50.0, "loss": 4.0},
        {"step": 20, "tokens": 200, "tokens_per_second": 1.0, "loss": 3.0},  # something else was running
        {"step": 30, "tokens": 300, "tokens_per_second": 100.0, "loss": 2.0},
    ]
    points, speed = training_curve(rows)
    assert points == [(10, 100, 2.0, 4.0), (20, 200, 102.0, 3.0), (30, 300, 103.0, 2.0)]
    assert speed == 50.0
    assert training_curve([]) == ([], 0.0)


SHAPE = ["data.vocab_size = 300", "data.length = 16", "data.batch_size = 4", "model.depth = 2", "model.aspect = 8"]


def test_a_baseline_of_many_methods_gets_more_seeds() -> None:
    """√m times as many: of four methods twice; of one, or where there is one seed, no more."""
    names = ["v1_m1", "v1_m2", "v1_m3", "v1_m4"]
    arms = {arm.id: arm for name in names for arm in arms_of([name], SHAPE, Suite(), None)}.values()
    counts = seed_counts(list(arms), Suite(seeds=3))
    assert sorted(counts[arm.id] for arm in arms) == [3, 3, 3, 3, 6]
    some = [arm.id for arm in arms if arm.name in names[:1]]
    assert sorted(seed_counts(list(arms), Suite(), 5, some).values()) == [5, 5]
    assert set(seed_counts(list(arms), Suite(seeds=1)).values()) == {1}
    assert max(seed_counts(list(arms), Suite(control_seeds=9)).values()) == 9


def test_what_a_bench_until_it_is_decided_may_need() -> None:
    arms = arms_of(["v1_m3"], SHAPE, Suite(baselines=("none",)), None)
    most, expected = runs_until_decided(arms, Suite())
    go_on = chances_to_go_on(planned_looks())
    assert most == 16 and expected == pytest.approx(6 + go_on[0] * 4 + go_on[1] * 6)
    assert runs_until_decided(arms, Suite(lrs=(0.5, 1.0)))[0] == 20  # two rates of two arms on the tuning seed


def test_rates_are_chosen_on_seed_zero(settings: list[str], tmp_path: Path, quick: list[str]) -> None:
    store = tmp_path / "bench"
    command = ["--gin", "v1_m3", "--seeds", "2", "--lrs", "0.5,1", "--store", str(store), "--set", *settings]
    assert main(command) == 0
    runs = Store(store).read().values()
    assert sorted((run.seed, run.tested) for run in runs if run.name == "v1_m3") == [
        (0, False),
        (0, False),
        (1, True),
        (2, True),
    ]
    done = len(quick)
    assert main(command) == 0 and len(quick) == done


def test_seeds_are_added_until_a_verdict_is_decided(
    settings: list[str], tmp_path: Path, launcher: PretendLauncher, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clear difference ends at the first look, an unclear one goes on; the same command again runs nothing."""
    losses = {"v1_m3": 2.0, "v1_m4": 3.012, "baseline": 3.0}

    def perform(task: Task) -> None:
        launcher.titles.append(task.title)
        if task.module == TEST_SPLIT:
            for folder in map(Path, task.arguments):
                loss = json.loads((folder / "summary.json").read_text())["valid_loss"]
                (folder / "test.json").write_text(json.dumps({"loss": loss}))
        else:
            name, seed = task.title.partition(" ")[0], int(task.title.rpartition("seed ")[2].rstrip(")"))
            noise = 0.01 * ((7 * seed + len(launcher.titles) % 2) % 5 - 2)
            leave_run(folder_of(task), losses[name] + noise, steps=4)

    launcher.perform = perform
    store = tmp_path / "bench"
    command = ["--methods", "v1_m3,v1_m4", "--until-decided", "--store", str(store), "--set", *settings]
    assert main(command) == 0
    out = capsys.readouterr().out
    seeds = {name: {r.seed for r in Store(store).read().values() if r.name == name} for name in losses}
    assert seeds["v1_m3"] == {1, 2, 3} and len(seeds["v1_m4"]) in (3, 5, 8)
    assert "after the look at 3 seeds, undecided: " in out and "v1_m3" not in out.split("undecided: ")[1].split("\n")[0]
    assert json.loads((store / "suites.json").read_text())[""]["looks"] == [3, 5, 8]
    done = len(launcher.titles)
    assert main(command) == 0 and len(launcher.titles) == done
    assert main([*command, "--seeds", "3"]) == 2
    assert "--until-decided has seeds of its own" in capsys.readouterr().err
    assert main([*command, "--plan"]) == 0
    assert "over all looks at most" in capsys.readouterr().out
