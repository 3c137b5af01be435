"""A real bench, tiny: arms, pairing, reuse, resumption."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from zoo import config
from zoo.arms import Job, arms_of
from zoo.bench import training_curve
from zoo.cli.bench import main
from zoo.store import Store
from zoo.suite import Suite


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    text = "\n\n".join(f"Sentence number {i} says that {i * i % 97} follows {i % 13}." for i in range(2000))
    (tmp_path / "text.txt").write_text(text)
    return [
        "train.steps = 4",
        "train.validate_every = 2",
        "train.save_every = 4",
        "data.vocab_size = 300",
        "data.length = 16",
        "data.batch_size = 4",
        "model.depth = 2",
        "model.aspect = 8",
        f'data.corpus = "{tmp_path / "text.txt"}"',
        f'data.cache = "{tmp_path / "cache"}"',
    ]


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
        loaded = config.load([tmp_path / "arm.gin"])
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
    assert main(command) == 0
    out = capsys.readouterr().out
    results = Store(store).read()
    assert len(results) == 6  # two arms: two rates on the first seed, the better one on the second
    tested = [r for r in results.values() if r.test_loss is not None]
    assert len(tested) == 4 and {r.seed for r in tested} == {1, 2}
    for run in results.values():
        assert run.training and run.curve[-1][:3] == run.training[-1][:3] and run.curve[-1][2] > 0
    assert "Verdicts against the plain block" in out and (store / "report.html").exists()
    lines = len((store / "results.jsonl").read_text().splitlines())
    runs = {path: path.stat().st_mtime_ns for path in (store / "runs").glob("*/summary.json")}
    assert main(command) == 0  # again: everything is there
    assert "4 of 4 runs are in the store already" in capsys.readouterr().out
    assert len((store / "results.jsonl").read_text().splitlines()) == lines
    assert runs == {path: path.stat().st_mtime_ns for path in (store / "runs").glob("*/summary.json")}
    row = json.loads((store / "results.jsonl").read_text().splitlines()[0])
    again = tmp_path / "again.gin"
    again.write_text(row["config"])
    assert config.load([again]).text == row["config"]  # a line is enough to run it again


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
    told = capsys.readouterr().out
    assert "model.norm_eps was 0.1 and is 1e-05" in told and "gone" not in told
    assert Store(store).read()[row.key].settings == row.settings
    assert {path.name for path in (store / "runs").iterdir()} == {run.name, f"{run.name}-before-1"}


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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name a method"),
        (["--suite", "v11"], "v11"),
        (["--gin", "v1_m3", "--jobs", "0"], "--jobs"),
        (["--gin", "v1_m3", "--seeds", "0"], "at least 1"),
        (["--gin", "v1_m3", "--lrs", "-1"], "positive"),
        (["--gin", "v1_m33"], "v1_m3"),
    ],
)
def test_bad_input_gets_a_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("suite", ["v1", "v2", "v3", "v4", "skip", "weak_recurrence", "smoke"])
def test_suites_name_methods_that_exist(suite: str) -> None:
    loaded = config.load([f"suites/{suite}"])
    for name in loaded.build("suite").methods:
        for part in name.split("+"):
            assert config.find(part).exists()
